#include "train/evaluation/best_evaluation.h"

#include <cmath>

#include "core/base/error.h"

namespace trireme {

void CheckBestEvaluation(const Config& config) {
  const RunConfig& run = config.run();
  const EvalConfig& eval = config.eval();
  const bool evaluates = eval.every() > 0 || eval.every_epoch();
  if (eval.early_stopping() > 0 && !evaluates) {
    throw InputError("eval.early_stopping = ", eval.early_stopping(),
                     " counts evaluations, and this run has none; set eval.every or eval.every_epoch");
  }
  if (config.save().final_from() == FINAL_FROM_BEST && !evaluates) {
    throw InputError("save.final_from: best is the checkpoint with the lowest evaluation loss, and this run has no ",
                     "evaluations; set eval.every or eval.every_epoch");
  }
  if (run.steps() == 0 && run.epochs() == 0) {
    throw InputError("run.epochs = 0 trains nothing; set it above 0, or run.steps");
  }
}

BestEvaluation::BestEvaluation(const EvalConfig& eval, const checkpoint::Progress& before)
    : patience_(eval.early_stopping()), threshold_(eval.early_stopping_threshold()), best_(before.best()) {}

bool BestEvaluation::Take(int64_t step, double loss) {
  const bool first = best_.step() == 0 || std::isnan(best_.loss());
  const bool counts_as_lower = first || best_.loss() - loss > threshold_;
  best_.set_since(counts_as_lower ? 0 : best_.since() + 1);
  if (!first && !(loss < best_.loss())) return false;
  best_.set_step(step);
  best_.set_loss(loss);
  return true;
}

bool BestEvaluation::StopsRun() const { return patience_ > 0 && best_.since() >= patience_; }

void BestEvaluation::AddTo(checkpoint::Progress& progress) const {
  if (best_.step() > 0) *progress.mutable_best() = best_;
}

}  // namespace trireme
