#include "train/evaluation/answer_metrics.h"

#include <algorithm>
#include <string_view>

#include "core/base/error.h"

namespace trireme {
namespace {

constexpr double kMetricSeconds = 600;
// What else an evaluation says, in the log or in the line of `trireme evaluate`.
constexpr std::string_view kOwnNames[] = {"loss",      "perplexity", "token_accuracy", "tokens",
                                          "sequences", "seconds",    "bleu-4",         "rouge-1",
                                          "rouge-2",   "rouge-l",    "exact_match",    "predictions"};

Json MetricQuestion(const std::vector<Prediction>& predictions) {
  Json columns;
  for (const char* name :
       {"predictions", "references", "prompts", "finish_reasons", "prediction_ids", "reference_ids"}) {
    columns[name] = Json::array();
  }
  for (const Prediction& one : predictions) {
    columns["predictions"].push_back(one.prediction);
    columns["references"].push_back(one.label);
    columns["prompts"].push_back(one.prompt);
    columns["finish_reasons"].push_back(one.finish_reason);
    columns["prediction_ids"].push_back(one.prediction_ids);
    columns["reference_ids"].push_back(one.label_ids);
  }
  return {{"answers", columns}};
}

double NumberOf(const std::string& name, const Json& value, const std::string& who) {
  if (value.is_number()) return value.get<double>();
  throw RuntimeError(who, ": its worker answered '", JsonLine(value).substr(0, 80), "' for '", name,
                     "'; wanted a number");
}

}  // namespace

AnswerMetrics::AnswerMetrics(const EvalConfig& eval) {
  for (const std::string& metric : eval.metrics()) {
    const std::string target = PythonTargetIn(metric);
    if (target.empty()) throw InputError("eval.metrics has '", metric, "'; wanted python:FILE.py:FUNCTION");
    workers_.push_back(std::make_unique<PythonWorker>(PythonWorkerOptions{.kind = "metric",
                                                                          .target = target,
                                                                          .key = "eval.metrics",
                                                                          .seconds = kMetricSeconds,
                                                                          .asked = "evaluations",
                                                                          .limit = "the seconds of a metric"}));
  }
}

void AnswerMetrics::CheckCode() {
  for (const std::unique_ptr<PythonWorker>& worker : workers_) {
    try {
      worker->Ask({{"check", Json::object()}}, "metrics");
    } catch (const Error& error) {
      throw InputError("eval.metrics: ", error.what());
    }
    worker->Stop();
  }
}

std::map<std::string, double> AnswerMetrics::Of(const std::vector<Prediction>& predictions) {
  std::map<std::string, double> found;
  const Json question = MetricQuestion(predictions);
  for (const std::unique_ptr<PythonWorker>& worker : workers_) {
    const Json numbers = worker->Ask(question, "metrics");
    for (const auto& [name, value] : numbers.items()) {
      const bool is_own = std::ranges::find(kOwnNames, name) != std::end(kOwnNames);
      if (is_own || !found.emplace(name, NumberOf(name, value, worker->who())).second) {
        throw RuntimeError(worker->who(), " returned '", name, "', which ",
                           is_own ? "an evaluation has already" : "another of eval.metrics has returned",
                           "; give it another name");
      }
    }
  }
  return found;
}

void CheckMetricCode(const EvalConfig& eval) {
  if (!eval.metrics().empty()) AnswerMetrics(eval).CheckCode();
}

}  // namespace trireme
