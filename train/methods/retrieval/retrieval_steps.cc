#include "train/methods/retrieval/retrieval_steps.h"

#include <optional>
#include <utility>

#include "train/methods/retrieval/retrieval.h"
#include "train/methods/row_feed.h"

namespace trireme {
namespace {

class RetrievalSteps : public Method {
 public:
  explicit RetrievalSteps(const Config& config) : config_(config) {}

  DataSets Open(const DataPlace& place) override {
    data_ = OpenDataSets(config_, place);
    return data_;
  }

  void Begin(const MethodRun& run) override {
    feed_.emplace(data_.train, run);
    pass_.emplace(run.trainer);
  }

  void Pass(int64_t step) override {
    const double waited_before = feed_->waited_seconds();
    StepRows batch = feed_->Take(step);
    result_ = {.epoch = feed_->EpochAt(step), .rows = &feed_->rows()};
    result_.loss = pass_->Pass(feed_->rows(), batch.rows);
    result_.chosen = std::move(batch.rows);
    result_.waited_seconds = feed_->waited_seconds() - waited_before;
  }

  StepResult Result() override { return std::move(result_); }
  bool EndsEpoch(int64_t step) override { return feed_->EndsEpoch(step); }
  Evaluation Evaluate(int64_t /*step*/) override { return pass_->Evaluate(*data_.valid); }

 private:
  const Config& config_;
  DataSets data_;
  std::optional<RowFeed> feed_;
  std::optional<RetrievalPass> pass_;
  StepResult result_;
};

}  // namespace

std::unique_ptr<Method> MakeRetrievalMethod(const Config& config) { return std::make_unique<RetrievalSteps>(config); }

}  // namespace trireme
