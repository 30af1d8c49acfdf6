// Stages embedding, reranker and classification: what their keys must be, and what follows from them. No torch.
#pragma once

#include <cstdint>
#include <string>

#include "core/config.pb.h"
#include "stages/stage.h"

namespace trireme {

// Records are whole texts: of each a vector, a score or labels are learnt.
inline bool TrainsTexts(const StageFacts& facts) { return facts.method == MethodKind::kRetrieval; }
// Whether the run is of a reranker that scores by the logits of two tokens.
bool IsGenerative(const Config& config);
// What the model's last layer gives in a run: the stage's, or logits for such a reranker.
HeadKind HeadOf(const Config& config);
// Texts that a record usually has; where data is opened, plans of memory take what it has (train/run/data_extent.h).
int64_t TextsPerRecord(const Config& config);
// What evaluations are compared by, as the log names it without eval_, the higher the better; empty: the loss, which
// is the mean squared error where that can be asked for.
std::string RetrievalMetric(const Config& config);

// Refuses what does not fit together. Nothing for other stages.
void CheckRetrieval(const Config& config);

}  // namespace trireme
