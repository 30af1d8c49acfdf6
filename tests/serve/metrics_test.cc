// Metrics in Prometheus' text form: histograms are cumulative and end in +Inf, names are escaped.
#include "serve/metrics.h"

#include <gtest/gtest.h>

namespace trireme {
namespace {

bool Has(const std::string& text, const std::string& line) { return text.find(line + "\n") != std::string::npos; }

TEST(Metrics, HistogramsAreCumulative) {
  Metrics metrics;
  for (const double seconds : {0.004, 0.3, 100.0}) metrics.Observe(Histogram::kTimeToFirstToken, seconds);
  const std::string text = metrics.Text("m");
  const std::string name = "trireme:time_to_first_token_seconds";
  EXPECT_TRUE(Has(text, "# TYPE " + name + " histogram"));
  EXPECT_TRUE(Has(text, name + "_bucket{model_name=\"m\",le=\"0.001\"} 0"));
  EXPECT_TRUE(Has(text, name + "_bucket{model_name=\"m\",le=\"0.005\"} 1"));
  EXPECT_TRUE(Has(text, name + "_bucket{model_name=\"m\",le=\"0.5\"} 2"));
  EXPECT_TRUE(Has(text, name + "_bucket{model_name=\"m\",le=\"60\"} 2"));
  EXPECT_TRUE(Has(text, name + "_bucket{model_name=\"m\",le=\"+Inf\"} 3"));
  EXPECT_TRUE(Has(text, name + "_sum{model_name=\"m\"} 100.304"));
  EXPECT_TRUE(Has(text, name + "_count{model_name=\"m\"} 3"));
}

TEST(Metrics, CountersAndGauges) {
  Metrics metrics;
  metrics.Set(Gauge::kRunning, 3);
  metrics.Add(Counter::kGenerationTokens, 2);
  metrics.Add(Counter::kGenerationTokens, 5);
  metrics.SetTotal(Counter::kPreemptions, 4);
  metrics.AddSuccess("stop");
  const std::string text = metrics.Text("a\"b\\");
  const std::string label = "{model_name=\"a\\\"b\\\\\"";
  EXPECT_TRUE(Has(text, "trireme:num_requests_running" + label + "} 3"));
  EXPECT_TRUE(Has(text, "trireme:generation_tokens_total" + label + "} 7"));
  EXPECT_TRUE(Has(text, "trireme:num_preemptions_total" + label + "} 4"));
  EXPECT_TRUE(Has(text, "trireme:request_success_total" + label + ",finished_reason=\"stop\"} 1"));
}

}  // namespace
}  // namespace trireme
