#include "train/methods/tokens.h"

#include <cmath>
#include <optional>
#include <utility>

#include "train/evaluation/evaluator.h"
#include "train/methods/row_feed.h"

namespace trireme {
namespace {

class TokenSteps : public Method {
 public:
  explicit TokenSteps(const Config& config) : config_(config) {}

  DataSets Open(const DataPlace& place) override {
    data_ = OpenDataSets(config_, place);
    return data_;
  }

  void Begin(const MethodRun& run) override {
    trainer_ = &run.trainer;
    feed_.emplace(data_.train, run);
  }

  // Does not wait for the loss, which is known when the gradients are finished.
  void Pass(int64_t step) override {
    const double waited_before = feed_->waited_seconds();
    StepRows batch = feed_->Take(step);
    result_ = {.epoch = feed_->EpochAt(step), .rows = &feed_->rows()};
    KeptFeatures* kept = trainer_->model().kept_features();
    if (kept != nullptr) kept->TakeUses();  // those of an evaluation
    trainer_->StartPass(feed_->rows(), batch.rows, batch.places);
    if (feed_->shares_by_cost()) {
      result_.metrics = {{"imbalance", batch.imbalance}, {"imbalance_in_order", batch.imbalance_in_order}};
    }
    if (kept != nullptr) result_.metrics["kept_images"] = static_cast<double>(kept->TakeUses());
    result_.chosen = std::move(batch.rows);
    result_.waited_seconds = feed_->waited_seconds() - waited_before;
  }

  StepResult Result() override {
    result_.loss = trainer_->loss();
    return std::move(result_);
  }

  bool EndsEpoch(int64_t step) override { return feed_->EndsEpoch(step); }

  Evaluation Evaluate(int64_t /*step*/) override {
    const EvaluationSums sums = trireme::Evaluate(trainer_->session(), *data_.valid);
    return {.loss = sums.mean_loss(),
            .token_accuracy = sums.accuracy(),
            .metrics = {{"perplexity", std::exp(sums.mean_loss())}}};
  }

 private:
  const Config& config_;
  DataSets data_;
  Trainer* trainer_ = nullptr;
  std::optional<RowFeed> feed_;
  StepResult result_;
};

}  // namespace

std::unique_ptr<Method> MakeTokensMethod(const Config& config) { return std::make_unique<TokenSteps>(config); }

}  // namespace trireme
