// KlTable: what the reference says of KTO's mismatched answers (data/mismatched_rows.h) in every batch of a run, read
// from the cache or computed before the first step. Which answers meet depends on the order of the batches, hence on
// the epoch: a table and a file in the cache for each. What the policy says of them is computed in the step.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "data/mismatched_rows.h"
#include "train/methods/preference/reference_table.h"
#include "train/step/batch_sampler.h"

namespace trireme {

class KlTable {
 public:
  // Of steps 1 to `steps` over the rows in the `order` of a BatchSampler. `rows` outlives it; `open` as in
  // ReferenceTable. Collective.
  KlTable(Session& session, const RowSource& rows, const BatchSamplerOptions& order, int64_t steps,
          const std::function<Reference&()>& open);

  // Into micro batches made of that step's MismatchedRows by MakePassInputs.
  void Fill(int64_t step, std::vector<PassInput>& inputs) const;

 private:
  struct Epoch {
    MismatchedBatches rows;
    ReferenceTable table;
  };

  const int64_t steps_per_epoch_;
  std::vector<Epoch> epochs_;
};

}  // namespace trireme
