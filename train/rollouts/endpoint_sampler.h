// EndpointSampler: completions of prompts that a server outside samples (rl.sampler.endpoint). Rank 0 asks it, several
// requests at a time, for one sampling at once or, where the run is one behind, while the ranks train; all ranks get
// the answers. Rewards and weights are decided elsewhere. No torch.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/comm/job.h"
#include "core/config.pb.h"
#include "core/io/background.h"
#include "train/rollouts/completion_endpoint.h"
#include "train/rollouts/prompt_set.h"
#include "train/rollouts/rollout_source.h"

namespace trireme {

class EndpointSampler {
 public:
  // `config` and `job` outlive it.
  EndpointSampler(const Config& config, std::shared_ptr<const PromptSet> prompts, int64_t vocabulary, Job& job);

  // As CompletionSampler's; what Prepare began is awaited. Collective.
  std::vector<Rollout> Draw(int64_t step, const std::vector<int64_t>& prompts, int64_t first);
  // Begins to draw these; the same ones are the next to be drawn.
  void Prepare(int64_t step, const std::vector<int64_t>& prompts);
  void UseWeights(const SharedWeights& weights) { weights_ = weights; }
  // Of the last drawing.
  const MetricValues& metrics() const { return metrics_; }

 private:
  // One sampling: what is asked for, with which weights.
  struct Order {
    int64_t step = 0, first = 0;
    std::vector<int64_t> prompts;
    SharedWeights weights;
  };
  // On rank 0, on any thread: the completions as JSON.
  std::string Fetch(const Order& order);
  std::vector<Rollout> Decode(const std::string& text, const Order& order) const;

  const Config& config_;
  const std::shared_ptr<const PromptSet> prompts_;
  Job& job_;
  SharedWeights weights_;
  std::optional<Order> prepared_;
  std::string fetched_;  // by the background thread, on rank 0
  MetricValues metrics_;
  std::unique_ptr<CompletionEndpoint> endpoint_;  // on rank 0
  Background background_;                         // last: its thread uses the others
};

}  // namespace trireme
