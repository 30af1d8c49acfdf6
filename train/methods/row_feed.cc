#include "train/methods/row_feed.h"

#include <utility>

namespace trireme {

RowFeed::RowFeed(Rows rows, const MethodRun& run)
    : trainer_(run.trainer),
      config_(run.trainer.session().config()),
      source_(rows),
      rows_(std::move(rows)),
      order_({.rows = source_->size(),
              .batch = config_.run().global_batch(),
              .shuffle = config_.data().shuffle() && !config_.data().streaming(),
              .seed = static_cast<uint64_t>(config_.run().seed()),
              .ramp = BatchRampOf(config_.run())}),
      total_steps_(run.total_steps) {}

bool RowFeed::shares_by_cost() const { return config_.data().balance() == ROWS_BY_COST; }

void RowFeed::Read(int64_t step) {
  next_ = {.rows = order_.RowsOf(step)};
  if (shares_by_cost()) {
    const Session& session = trainer_.session();
    const RowShares shares{.data_size = session.plan().grids.dense.Size("dp"),
                           .micro_batch = config_.run().micro_batch()};
    next_ = ShareByCost(next_.rows, *source_, session.graph(), shares);
  }
  rows_.Start(trainer_.OwnRows(next_.rows));
  read_step_ = step;
}

StepRows RowFeed::Take(int64_t step) {
  if (read_step_ != step) Read(step);
  StepRows rows = std::move(next_);
  if (step < total_steps_) {
    Read(step + 1);
  } else {
    rows_.Start({});
  }
  return rows;
}

}  // namespace trireme
