#include "serve/metrics.h"

#include <sstream>

namespace trireme {
namespace {

struct Described {
  const char* name;
  const char* help;
};
constexpr std::array<Described, static_cast<size_t>(Gauge::kCount)> kGauges = {{
    {"num_requests_running", "Rows that run"},
    {"num_requests_waiting", "Rows of the engine that wait for room"},
    {"num_requests_queued", "Requests that the engine has not taken yet"},
    {"kv_cache_usage_perc", "Share of the KV cache in use, from 0 to 1"},
}};
constexpr std::array<Described, static_cast<size_t>(Counter::kCount)> kCounters = {{
    {"prompt_tokens", "Prompt tokens of finished requests"},
    {"generation_tokens", "Generated tokens"},
    {"num_preemptions", "Rows that gave up their blocks and were computed again"},
    {"prefix_cache_queries", "Tokens of rows that started"},
    {"prefix_cache_hits", "Those of them that were found in the cache"},
}};
constexpr std::array<Described, static_cast<size_t>(Histogram::kCount)> kHistograms = {{
    {"time_to_first_token_seconds", "From a request's arrival to its first token"},
    {"inter_token_latency_seconds", "Between adjacent tokens of an answer"},
    {"request_time_per_output_token_seconds", "The same, as a mean of each request"},
    {"e2e_request_latency_seconds", "From a request's arrival to its end"},
    {"request_queue_time_seconds", "From a request's arrival to the engine"},
    {"request_prefill_time_seconds", "From there to its first token"},
    {"request_decode_time_seconds", "From its first token to its last"},
}};
constexpr std::array<double, 14> kLimits = {0.001, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60};

std::string Escaped(const std::string& text) {
  std::string safe;
  for (const char letter : text) {
    if (letter == '\\' || letter == '"') safe += '\\';
    safe += letter == '\n' ? ' ' : letter;
  }
  return safe;
}

}  // namespace

void Metrics::Set(Gauge gauge, double value) {
  const std::lock_guard lock(mutex_);
  gauges_[static_cast<size_t>(gauge)] = value;
}

void Metrics::Add(Counter counter, double value) {
  const std::lock_guard lock(mutex_);
  counters_[static_cast<size_t>(counter)] += value;
}

void Metrics::SetTotal(Counter counter, double value) {
  const std::lock_guard lock(mutex_);
  counters_[static_cast<size_t>(counter)] = value;
}

void Metrics::Observe(Histogram histogram, double seconds) {
  const std::lock_guard lock(mutex_);
  Observed& observed = histograms_[static_cast<size_t>(histogram)];
  observed.buckets.resize(kLimits.size());
  for (size_t i = 0; i < kLimits.size(); ++i) observed.buckets[i] += seconds <= kLimits[i] ? 1 : 0;
  observed.sum += seconds;
  ++observed.count;
}

void Metrics::AddSuccess(const std::string& finished_reason) {
  const std::lock_guard lock(mutex_);
  ++successes_[finished_reason];
}

std::string Metrics::Text(const std::string& model) const {
  const std::lock_guard lock(mutex_);
  const std::string label = "model_name=\"" + Escaped(model) + "\"";
  std::ostringstream text;
  text.precision(12);
  const auto head = [&](const Described& what, const char* kind, const char* ending = "") {
    text << "# HELP trireme:" << what.name << ending << " " << what.help << "\n# TYPE trireme:" << what.name << ending
         << " " << kind << "\n";
  };
  for (size_t i = 0; i < kGauges.size(); ++i) {
    head(kGauges[i], "gauge");
    text << "trireme:" << kGauges[i].name << "{" << label << "} " << gauges_[i] << "\n";
  }
  for (size_t i = 0; i < kCounters.size(); ++i) {
    head(kCounters[i], "counter", "_total");
    text << "trireme:" << kCounters[i].name << "_total{" << label << "} " << counters_[i] << "\n";
  }
  head({"request_success", "Answers by the reason of their end"}, "counter", "_total");
  for (const auto& [reason, count] : successes_) {
    text << "trireme:request_success_total{" << label << ",finished_reason=\"" << reason << "\"} " << count << "\n";
  }
  for (size_t i = 0; i < kHistograms.size(); ++i) {
    const Observed& observed = histograms_[i];
    head(kHistograms[i], "histogram");
    for (size_t k = 0; k < kLimits.size(); ++k) {
      text << "trireme:" << kHistograms[i].name << "_bucket{" << label << ",le=\"" << std::defaultfloat << kLimits[k]
           << "\"} " << (observed.buckets.empty() ? 0 : observed.buckets[k]) << "\n";
    }
    text << "trireme:" << kHistograms[i].name << "_bucket{" << label << ",le=\"+Inf\"} " << observed.count << "\n"
         << "trireme:" << kHistograms[i].name << "_sum{" << label << "} " << observed.sum << "\n"
         << "trireme:" << kHistograms[i].name << "_count{" << label << "} " << observed.count << "\n";
  }
  return text.str();
}

}  // namespace trireme
