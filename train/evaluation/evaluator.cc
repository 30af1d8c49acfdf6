#include "train/evaluation/evaluator.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "parallel/objectives/cross_entropy.h"
#include "train/step/batches.h"

namespace trireme {

EvaluationSums Evaluate(Session& session, const RowSource& rows) {
  const CrossEntropy objective({.count_correct = true});
  const std::vector<std::string> names = objective.SumNames(/*mtp_depths=*/0);
  const int64_t global_batch = session.config().run().global_batch();
  EvaluationSums sums;
  for (int64_t first = 0; first < rows.size(); first += global_batch) {
    std::vector<int64_t> chosen(std::min(global_batch, rows.size() - first));
    std::iota(chosen.begin(), chosen.end(), first);
    // With a normaliser of one the loss is a plain sum.
    BatchTotals totals = TotalsOf(rows, chosen);
    sums.tokens += totals.trained;
    totals.trained = 1;
    PassBatch batch(MakePassInputs(rows, chosen, ShapeOf(session)),
                    {.objective = &objective, .differentiate = false, .totals = totals});
    session.RunForward(batch);
    const NamedSums found = session.ReduceSums(batch.result(), names);
    sums.loss += found.at("loss");
    sums.correct += static_cast<int64_t>(found.at("correct"));
  }
  return sums;
}

}  // namespace trireme
