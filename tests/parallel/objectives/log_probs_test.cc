// Log-probabilities over vocabulary shards against log_softmax and gather in fp64: values, sums over
// documents, gradients with known weights and with weights that depend on a document's sum; chunks of any
// size.
#include "parallel/objectives/log_probs.h"

#include <gtest/gtest.h>

#include "core/base/error.h"
#include "tests/parallel/objectives/wide_problem.h"

namespace trireme {
namespace {

// -log sigmoid of the sum over each document, as preference losses are: the sum decides what each token counts.
class LogisticSums : public LogProbObjective {
 public:
  using LogProbObjective::LogProbObjective;
  std::vector<std::string> SumNames(int64_t) const override { return {"loss"}; }

 protected:
  at::Tensor KnownWeights(const TrainedTokens&, const PassContext&) const override { return {}; }
  at::Tensor Weigh(const LabelLogProbs& log_probs) const override {
    const at::Tensor sums = log_probs.SumsBySequence() * 0.05;
    log_probs.pass.output->Add("loss", sums.sigmoid().log().neg().sum());
    return log_probs.OfEachToken(sums.sigmoid().sub(1).mul(0.05));
  }
};

std::string ContextOf(at::ScalarType type, int64_t chunk_bytes) {
  return Concat(type == at::kFloat ? "fp32" : "bf16", ", chunks of ", chunk_bytes);
}

template <typename Check>
void ForAll(const Check& check) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    for (const int64_t chunk_bytes : {1, 700, 1 << 20}) check(type, chunk_bytes);
  }
}

TEST(LogProbs, WithWeightsFromTheData) {
  ForAll([](at::ScalarType type, int64_t chunk_bytes) {
    HeadProblem p(type);
    p.input.weights = at::randn({p.tokens});
    p.input.weights[3] = 0;
    const WideProblem wide(p);
    const at::Tensor weights = p.input.weights.index_select(0, wide.trained).to(at::kDouble);
    const at::Tensor loss = -(weights * wide.log_probs).sum();
    const HeadRun run =
        RunObjective(WeightedLogProbs(chunk_bytes), p, {.wants = {.log_probs = true, .sequence_log_probs = true}});
    const double tolerance = type == at::kFloat ? 1e-5 : 1.5e-2;
    wide.ExpectGradients(loss, run, p, tolerance, ContextOf(type, chunk_bytes));
    EXPECT_LT(RelativeError(run.output.log_probs.index_select(0, wide.trained), wide.log_probs.detach()), tolerance);
    EXPECT_EQ(run.output.log_probs[0].item<float>(), 0.0F);  // not trained
    const at::Tensor sums = at::zeros({3}, at::kDouble)
                                .index_add(0, p.input.sequence.index_select(0, wide.trained), wide.log_probs.detach());
    EXPECT_LT(RelativeError(run.output.sequence_log_probs, sums), tolerance);
  });
}

TEST(LogProbs, WithoutWeightsIsTheMeanOverTheWholeBatch) {
  const HeadProblem p(at::kFloat);
  const WideProblem wide(p);
  const HeadRun run = RunObjective(WeightedLogProbs(), p, {.totals = {.trained = 80}});
  wide.ExpectGradients(-wide.log_probs.sum() / 80, run, p, 1e-5, "mean");
}

TEST(LogProbs, WithWeightsThatDependOnASum) {
  ForAll([](at::ScalarType type, int64_t chunk_bytes) {
    const HeadProblem p(type);
    const WideProblem wide(p);
    const at::Tensor sums =
        at::zeros({3}, at::kDouble).index_add(0, p.input.sequence.index_select(0, wide.trained), wide.log_probs);
    const at::Tensor loss = -(sums * 0.05).sigmoid().log().sum();
    const HeadRun run = RunObjective(LogisticSums(chunk_bytes), p, {});
    wide.ExpectGradients(loss, run, p, type == at::kFloat ? 1e-5 : 1.5e-2, ContextOf(type, chunk_bytes));
  });
}

TEST(LogProbs, NothingTrainedAndNothingDifferentiated) {
  HeadProblem p(at::kFloat);
  const HeadRun forward = RunObjective(WeightedLogProbs(), p, {.differentiate = false, .totals = {.trained = 1}});
  EXPECT_FALSE(forward.hidden_gradient.defined());
  EXPECT_EQ(forward.weight_gradient.abs().sum().item<float>(), 0.0F);
  EXPECT_GT(forward.output.sums.at("loss").item<float>(), 0.0F);
  p.input.labels.fill_(kNotTrained);
  for (const Objective* objective : std::initializer_list<const Objective*>{new WeightedLogProbs, new LogisticSums}) {
    const std::unique_ptr<const Objective> owned(objective);
    const HeadRun run = RunObjective(*owned, p, {});
    EXPECT_EQ(run.hidden_gradient.abs().sum().item<float>(), 0.0F);
    EXPECT_EQ(run.weight_gradient.abs().sum().item<float>(), 0.0F);
  }
}

}  // namespace
}  // namespace trireme
