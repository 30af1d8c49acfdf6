#include "train/methods/preference/kl_table.h"

#include <algorithm>
#include <utility>

namespace trireme {

KlTable::KlTable(Session& session, const RowSource& rows, const BatchSamplerOptions& order, int64_t steps,
                 const std::function<Reference&()>& open)
    : steps_per_epoch_(BatchSampler(order).steps_per_epoch()) {
  BatchSampler sampler(order);
  for (int64_t first = 1; first <= steps; first += steps_per_epoch_) {
    std::vector<std::vector<int64_t>> batches;
    for (int64_t step = first; step <= std::min(steps, first + steps_per_epoch_ - 1); ++step) {
      batches.push_back(sampler.RowsOf(step));
    }
    MismatchedBatches mismatched(rows, batches, session.config().data().max_length());
    ReferenceTable table(session, mismatched, open);
    epochs_.push_back({std::move(mismatched), std::move(table)});
  }
}

void KlTable::Fill(int64_t step, std::vector<PassInput>& inputs) const {
  const Epoch& epoch = epochs_.at(static_cast<size_t>((step - 1) / steps_per_epoch_));
  epoch.table.Fill(epoch.rows.RowsOf((step - 1) % steps_per_epoch_), inputs);
}

}  // namespace trireme
