// Metrics: numbers of a running server in Prometheus' text format, under the names that dashboards of vLLM
// know, with the prefix "trireme:". From any thread.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace trireme {

enum class Gauge { kRunning, kWaiting, kQueued, kCacheUsage, kCount };
enum class Counter { kPromptTokens, kGenerationTokens, kPreemptions, kPrefixQueries, kPrefixHits, kCount };
enum class Histogram {
  kTimeToFirstToken,
  kInterTokenLatency,
  kTimePerOutputToken,
  kEndToEnd,
  kQueueTime,
  kPrefillTime,
  kDecodeTime,
  kCount
};

class Metrics {
 public:
  void Set(Gauge gauge, double value);
  void Add(Counter counter, double value);
  void SetTotal(Counter counter, double value);  // of what is counted elsewhere
  void Observe(Histogram histogram, double seconds);
  void AddSuccess(const std::string& finished_reason);

  std::string Text(const std::string& model) const;

 private:
  struct Observed {
    std::vector<int64_t> buckets;  // by upper limit
    double sum = 0;
    int64_t count = 0;
  };

  mutable std::mutex mutex_;
  std::array<double, static_cast<size_t>(Gauge::kCount)> gauges_ = {};
  std::array<double, static_cast<size_t>(Counter::kCount)> counters_ = {};
  std::array<Observed, static_cast<size_t>(Histogram::kCount)> histograms_;
  std::map<std::string, double> successes_;
};

}  // namespace trireme
