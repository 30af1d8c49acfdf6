#include "train/methods/preference/preference_steps.h"

#include <optional>
#include <utility>

#include "train/methods/preference/preference.h"
#include "train/methods/row_feed.h"

namespace trireme {
namespace {

class PreferenceSteps : public Method {
 public:
  explicit PreferenceSteps(const Config& config) : config_(config) {}

  DataSets Open(const DataPlace& place) override {
    data_ = OpenDataSets(config_, place);
    return data_;
  }

  void Begin(const MethodRun& run) override {
    total_steps_ = run.total_steps;
    trainer_ = &run.trainer;
    feed_.emplace(data_.train, run);
    pass_.emplace(run.trainer, run.start.checkpoint);
    const auto& state = run.start.progress.objective_state();
    if (!state.empty()) pass_->Restore({state.begin(), state.end()});
  }

  bool wants_start() override { return pass_->reference() != nullptr && pass_->reference()->wants_start(); }
  void TakeStart() override { pass_->reference()->TakeStart(); }
  void Prepare() override { pass_->Precompute(*data_.train, feed_->order(), total_steps_, data_.valid.get()); }
  std::vector<SavedModel> others() override { return SavedModels(pass_->reference()); }

  void Pass(int64_t step) override {
    KeptFeatures* const kept = trainer_->model().kept_features();
    if (kept != nullptr) kept->TakeUses();  // those of an evaluation
    const double waited_before = feed_->waited_seconds();
    StepRows batch = feed_->Take(step);
    result_ = {.epoch = feed_->EpochAt(step), .rows = &feed_->rows()};
    result_.loss = pass_->Pass(feed_->rows(), batch.rows, step);
    result_.metrics = pass_->metrics();
    if (kept != nullptr) result_.metrics["kept_images"] = static_cast<double>(kept->TakeUses());
    result_.chosen = std::move(batch.rows);
    result_.waited_seconds = feed_->waited_seconds() - waited_before;
  }

  StepResult Result() override { return std::move(result_); }

  void AfterUpdate(int64_t step) override {
    if (Reference* reference = pass_->reference()) reference->Sync(step);
  }

  bool EndsEpoch(int64_t step) override { return feed_->EndsEpoch(step); }
  Evaluation Evaluate(int64_t /*step*/) override { return pass_->Evaluate(*data_.valid); }
  void AddTo(checkpoint::Progress& progress) const override {
    progress.mutable_objective_state()->Assign(pass_->state().begin(), pass_->state().end());
  }

 private:
  const Config& config_;
  DataSets data_;
  int64_t total_steps_ = 0;
  Trainer* trainer_ = nullptr;
  std::optional<RowFeed> feed_;
  std::optional<PreferencePass> pass_;
  StepResult result_;
};

}  // namespace

std::unique_ptr<Method> MakePreferenceMethod(const Config& config) { return std::make_unique<PreferenceSteps>(config); }

}  // namespace trireme
