#include "launch/verify_conversion.h"

#include "core/base/error.h"

#ifdef TRIREME_TORCH_VERSION
#include <algorithm>
#include <cmath>
#include <vector>

#include "core/base/random.h"
#include "core/config/load.h"
#include "models/families.h"
#include "models/reward_model.h"
#include "stages/stage.h"
#include "train/step/sequence_scores.h"
#include "train/step/trainer.h"
#endif

namespace trireme {

#ifdef TRIREME_TORCH_VERSION
namespace {

constexpr int64_t kRows = 4, kLength = 24;

std::vector<Row> RandomTokens(int64_t vocabulary) {
  const RandomStream random(1, "tokens of convert --verify");
  std::vector<Row> rows(kRows);
  for (int64_t row = 0; row < kRows; ++row) {
    Row& one = rows[static_cast<size_t>(row)];
    for (int64_t i = 0; i < kLength; ++i) {
      one.input_ids.push_back(static_cast<int64_t>(
          random.Below(static_cast<uint64_t>(vocabulary), static_cast<uint64_t>(row * kLength + i))));
    }
    one.labels.assign(kLength, kNotTrained);
  }
  return rows;
}

// Of a reward model, in place of losses.
std::vector<double> Scores(const Config& config, Job& job) {
  Session session(config, PlanModel(config, job.world(), HeadKind::kScore), job,
                  {.trained = false, .dtype = DType::kFp32});
  session.TakeWeights();
  return SequenceScoresOf(session, RowList(RandomTokens(VocabularyOf(session.graph()))));
}

// Only the last token of each row is trained: its loss is one entry of the logits' log-softmax.
std::vector<double> TokenLosses(const std::filesystem::path& directory, Job& job) {
  Config config = ParseConfig("", "defaults", {"device=cpu", "tuning.kind=full"});
  config.mutable_model()->set_path(directory.string());
  if (IsRewardModel(HfConfig::Read(directory))) return Scores(config, job);
  const std::unique_ptr<Session> session = Session::Open(config, job, {.dtype = DType::kFp32});
  session->TakeWeights();
  Trainer trainer(*session);
  std::vector<double> losses;
  for (Row one : RandomTokens(VocabularyOf(session->graph()))) {
    one.labels.back() = one.input_ids.back();
    losses.push_back(trainer.Pass({one}));
    trainer.FinishGradients();
    trainer.optimizer().SkipUpdate();
  }
  return losses;
}

}  // namespace

void RefuseUnverifiable(const std::filesystem::path& directory) { BuildGraph(HfConfig::Read(directory)); }

double LossDifference(const std::filesystem::path& a, const std::filesystem::path& b, Job& job) {
  const std::vector<double> before = TokenLosses(a, job), after = TokenLosses(b, job);
  double largest = 0;
  for (size_t i = 0; i < before.size(); ++i) largest = std::max(largest, std::abs(before[i] - after[i]));
  return largest;
}
#else
void RefuseUnverifiable(const std::filesystem::path&) {
  throw InputError("--verify runs the model, but this trireme was built without torch; leave it out");
}

double LossDifference(const std::filesystem::path&, const std::filesystem::path&, Job&) { return 0; }
#endif

}  // namespace trireme
