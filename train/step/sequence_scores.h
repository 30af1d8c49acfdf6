// SequenceScores: what a reward model gives each row at its last token. Trains nothing.
#pragma once

#include <vector>

#include "data/rows.h"
#include "session/session.h"

namespace trireme {

// In the order of the rows, the same on every rank. A global batch at a time; the session's model has a value head.
// Collective.
std::vector<double> SequenceScoresOf(Session& session, const RowSource& rows);

}  // namespace trireme
