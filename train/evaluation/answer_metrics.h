// AnswerMetrics: eval.metrics, a user's own Python over the answers that an evaluation has the model write. Each
// function runs in a process beside the program. What is asked of it, and the names of its numbers, are here; no torch.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/config.pb.h"
#include "train/evaluation/predictions.h"
#include "train/programs/python_worker.h"

namespace trireme {

class AnswerMetrics {
 public:
  // Refuses what is not python:FILE.py:FUNCTION.
  explicit AnswerMetrics(const EvalConfig& eval);

  // Loads each function once, so that one which cannot be asked ends the run before it begins.
  void CheckCode();
  // Their numbers, by the names of the log without eval_. Those of another function, of an evaluation or of its scores
  // are no names for them.
  std::map<std::string, double> Of(const std::vector<Prediction>& predictions);

 private:
  std::vector<std::unique_ptr<PythonWorker>> workers_;
};

// On one rank, before any work.
void CheckMetricCode(const EvalConfig& eval);

}  // namespace trireme
