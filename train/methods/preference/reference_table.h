// ReferenceTable: the reference's log-probabilities of all answers of a data set, read from the cache or computed in
// one forward pass over it, the same on every rank. What takes the place of a reference while training.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "data/rows.h"
#include "train/methods/preference/reference_cache.h"
#include "train/step/reference.h"

namespace trireme {

class ReferenceTable {
 public:
  // `open` gives the reference; it is called on every rank, or on none if the cache has everything. Collective.
  ReferenceTable(Session& session, const RowSource& rows, const std::function<Reference&()>& open);

  // Into micro batches made of the `chosen` rows by MakePassInputs.
  void Fill(std::span<const int64_t> chosen, std::vector<PassInput>& inputs) const;

 private:
  void Compute(const RowSource& rows, Reference& reference);
  bool ReadCached(const ReferenceCache* cache);

  Session& session_;
  const AnswerIndex index_;
  std::vector<float> log_probs_;  // by answer
};

}  // namespace trireme
