// Evaluator: loss and accuracy of a session's model over rows. No training, no dropout.
#pragma once

#include <cstdint>

#include "data/rows.h"
#include "session/session.h"

namespace trireme {

// Sums over rows that were evaluated.
struct EvaluationSums {
  double loss = 0;
  int64_t tokens = 0;   // that are trained
  int64_t correct = 0;  // of these, correct: the label has the largest logit

  double mean_loss() const { return loss / static_cast<double>(tokens); }
  double accuracy() const { return static_cast<double>(correct) / static_cast<double>(tokens); }
};

// Forward over all rows, one global batch at a time; the same on every rank. Collective.
EvaluationSums Evaluate(Session& session, const RowSource& rows);

}  // namespace trireme
