// What the log-probability objective costs relative to cross-entropy: forward and backward over a whole head,
// one JSON line each with the ratio of times (best of alternating rounds) and of peak tensor memory. Not a
// test: no limit here.
//   objectives_benchmark        32k vocabulary, 2 x 512 tokens, bf16, hidden size 1024
#include <gtest/gtest.h>

#include <ATen/ATen.h>

#include <algorithm>
#include <chrono>
#include <iostream>

#include "core/base/json.h"
#include "core/tensor/counted_memory.h"
#include "parallel/objectives/cross_entropy.h"
#include "parallel/objectives/log_probs.h"
#include "parallel/pass/pass_batch.h"
#include "tests/core/comm/spmd.h"

namespace trireme {
namespace {

constexpr int64_t kVocabulary = 32 << 10, kSize = 1024, kTokens = 2 * 512;
constexpr int kRounds = 12;

class SumsDecide : public LogProbObjective {
 public:
  std::vector<std::string> SumNames(int64_t) const override { return {"loss"}; }

 protected:
  at::Tensor KnownWeights(const TrainedTokens&, const PassContext&) const override { return {}; }
  at::Tensor Weigh(const LabelLogProbs& log_probs) const override {
    const at::Tensor sums = log_probs.SumsBySequence() * 1e-4;
    log_probs.pass.output->Add("loss", sums.sigmoid().log().neg().sum());
    return log_probs.OfEachToken(sums.sigmoid().sub(1));
  }
};

struct Cost {
  double seconds = 1e9;
  int64_t bytes = 0;
};

void Time(const Objective& objective, const PassInput& input, const HeadStates& head, Cost& cost) {
  PassBatch batch({input}, {.objective = &objective, .totals = {.trained = kTokens}});
  CountedMemory::ResetPeak();
  const int64_t before = CountedMemory::bytes();
  const auto start = std::chrono::steady_clock::now();
  objective.Run(head, batch.at(0));
  cost.seconds =
      std::min(cost.seconds, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  cost.bytes = std::max(cost.bytes, CountedMemory::peak() - before);
}

TEST(Objectives, CostBesideCrossEntropy) {
  CountedMemory::Begin();
  at::manual_seed(1);
  PassInput input{.rows = 2, .length = kTokens / 2, .tokens = at::zeros({kTokens}, at::kLong)};
  input.labels = at::randint(kVocabulary, {kTokens}, at::kLong);
  input.sequence = at::arange(kTokens, at::kLong).floor_divide(kTokens / 2);
  input.sequences = 2;
  const Weight weight{"logits", at::randn({kVocabulary, kSize}).to(at::kBFloat16), at::zeros({kVocabulary, kSize})};
  const HeadStates head{.hidden = {at::randn({kTokens, kSize}).to(at::kBFloat16)},
                        .weight = weight,
                        .columns = {0, kVocabulary},
                        .vocabulary = kVocabulary,
                        .tensor = Alone(),
                        .context = Alone()};
  const CrossEntropy cross_entropy;
  const WeightedLogProbs known;
  const SumsDecide decided;
  Cost base, known_cost, decided_cost;
  for (int i = 0; i < kRounds; ++i) {
    Time(cross_entropy, input, head, base);
    Time(known, input, head, known_cost);
    Time(decided, input, head, decided_cost);
  }
  const auto print = [&](const char* name, const Cost& cost) {
    std::cout << JsonLine({{"objective", name},
                           {"ms", cost.seconds * 1e3},
                           {"time_ratio", cost.seconds / base.seconds},
                           {"memory_ratio", static_cast<double>(cost.bytes) / static_cast<double>(base.bytes)}})
              << std::endl;
  };
  print("cross_entropy", base);
  print("log_probs, weights known", known_cost);
  print("log_probs, sums decide", decided_cost);
}

}  // namespace
}  // namespace trireme
