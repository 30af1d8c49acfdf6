// What is known about a finished step, for all reporters. Plain values.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/base/json.h"

namespace trireme {

// What an objective reports beside its loss, under the names that TRL logs it by: "rewards/margins", "kl", …
using MetricValues = std::map<std::string, double>;

// What the model makes of data that it is not trained on.
struct Evaluation {
  std::optional<double> loss = {};            // mean over all trained tokens, or over answers, if there is one
  std::optional<double> token_accuracy = {};  // fraction of them predicted correctly, if tokens are trained
  double seconds = 0;
  MetricValues metrics = {};
  std::string judged_by = {};    // the metric that evaluations are compared by, the higher the better; empty: the loss
  std::string predictions = {};  // JSON lines of what the model wrote, on rank 0; empty: nothing to keep

  // The lower the better; nothing where it was not measured.
  std::optional<double> criterion() const {
    if (judged_by.empty()) return loss;
    const auto found = metrics.find(judged_by);
    return found == metrics.end() ? std::nullopt : std::optional(-found->second);
  }
};

struct LoggedStep {
  int64_t step = 0;  // 0: before the first, with an evaluation alone
  int64_t total_steps = 0;
  double loss = 0;  // of the step; in the log, the mean over the steps since the previous line
  double grad_norm = 0;
  double learning_rate = 0;
  int64_t tokens = 0;   // trained in this step
  int64_t samples = 0;  // of this step: records of the data, or completions; more than sequences where they are packed
  double tokens_per_second = 0;  // trained or not, excluding padding
  double step_seconds = 0;
  double data_seconds = 0;  // of these, spent waiting for rows
  double mfu = 0;           // above 1: the reference peak was measured too low
  double memory_gib = 0;
  double epoch = 0;
  double elapsed_seconds = 0;
  int64_t steps_here = 0;                     // since the run started or went on
  std::vector<double> mtp_loss = {};          // of each depth of multi-token prediction, where there is any
  MetricValues metrics = {};                  // of the step; where it is written, the mean as of the loss
  Json experts = {};                          // how routers used them; null where there are none
  std::string skipped = {};                   // why the update was left out; empty: it was made
  std::optional<Evaluation> evaluation = {};  // behind this step, where one was due

  double remaining_seconds() const {
    return elapsed_seconds / static_cast<double>(steps_here) * static_cast<double>(total_steps - step);
  }
};

}  // namespace trireme
