#include "train/methods/preference/reference_table.h"

#include <algorithm>
#include <memory>
#include <numeric>

#include "core/base/error.h"
#include "core/base/log.h"
#include "data/prepare.h"
#include "parallel/objectives/answer_facts.h"
#include "train/step/batches.h"
#include "train/step/rank_sums.h"

namespace trireme {

ReferenceTable::ReferenceTable(Session& session, const RowSource& rows, const std::function<Reference&()>& open)
    : session_(session), index_(rows), log_probs_(static_cast<size_t>(index_.answers()), 0.0F) {
  const bool speaks = session.job().rank() == 0;
  std::unique_ptr<ReferenceCache> cache;
  if (speaks) {
    MakeDataCache(DataCacheOf(session.config().data()));
    cache = std::make_unique<ReferenceCache>(session.config(), rows);
  }
  if (ReadCached(cache.get())) return;
  Compute(rows, open());
  if (!speaks) return;
  cache->Write(log_probs_);
  TRIREME_LOG(INFO) << "reference: log-probabilities of " << index_.answers() << " answers computed, and cached in "
                    << cache->path().string();
}

// On rank 0, which hands them to the others.
bool ReferenceTable::ReadCached(const ReferenceCache* cache) {
  char found = 0;
  if (cache != nullptr) {
    if (const auto cached = cache->Read(index_.answers())) {
      log_probs_ = *cached;
      found = 1;
      TRIREME_LOG(INFO) << "reference: log-probabilities of " << index_.answers() << " answers read from "
                        << cache->path().string();
    }
  }
  session_.job().BroadcastBytes(&found, sizeof found);
  if (found != 0) session_.job().BroadcastBytes(log_probs_.data(), sizeof(float) * log_probs_.size());
  return found != 0;
}

// In batches as large as a step's. Each answer is computed by one of the ranks that speak; the sum over all ranks adds
// zeros to it.
void ReferenceTable::Compute(const RowSource& rows, Reference& reference) {
  const BatchShape shape = ShapeOf(session_);
  const int64_t batch = session_.config().run().global_batch();
  for (int64_t first = 0; first < rows.size(); first += batch) {
    std::vector<int64_t> chosen(static_cast<size_t>(std::min(batch, rows.size() - first)));
    std::iota(chosen.begin(), chosen.end(), first);
    const auto found = reference.LogProbsOf(MakePassInputs(rows, chosen, shape));
    if (!SpeaksForRows(session_)) continue;
    const std::vector<int64_t> answers = index_.Of(OwnRows(chosen, shape));
    size_t next = 0;
    for (const std::vector<double>& micro_batch : found) {
      for (const double value : micro_batch) log_probs_[answers.at(next++)] = static_cast<float>(value);
    }
  }
  SumOverRanks(log_probs_, session_);
}

void ReferenceTable::Fill(std::span<const int64_t> chosen, std::vector<PassInput>& inputs) const {
  const std::vector<int64_t> answers = index_.Of(OwnRows(chosen, ShapeOf(session_)));
  size_t next = 0;
  for (PassInput& input : inputs) {
    AnswerFacts& facts = input.facts.Edit<AnswerFacts>();
    facts.reference.clear();
    for (size_t i = 0; i < facts.tokens.size(); ++i) facts.reference.push_back(log_probs_[answers.at(next++)]);
  }
}

}  // namespace trireme
