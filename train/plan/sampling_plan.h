// SamplingPlan: what sampling in a run of policy training takes, and in evaluations that write answers, without a
// device: how many completions are decoded at once, and the memory of their keys and values, which the activations have
// between samplings. No torch.
#pragma once

#include <cstdint>
#include <string>

#include "core/config.pb.h"
#include "train/plan/memory_plan.h"

namespace trireme {

struct SamplingPlan {
  int64_t rows = 0;           // decoded at once on each data-parallel rank
  int64_t cached_tokens = 0;  // of all of them, where each has data.max_length: whole blocks
  int64_t cache_bytes = 0;    // per rank, of their keys, values and states
  int64_t logit_bytes = 0;    // per rank, of one token of each
  int64_t weight_bytes = 0;   // per rank, of the second copy under rl.sampling, all the time
  int64_t reward_bytes = 0;   // per rank, of the reward models in rl.rewards, all the time
};

bool Samples(const Config& config);  // rather than reading rl.rollouts, or asking another sampler
SamplingPlan PlanSampling(const Config& config, const LayerGraph& graph, const Grids& grids);

// Both phases of a step, of the rank that needs most; empty where nothing is sampled.
std::string SamplingText(const Config& config, const SamplingPlan& plan, const std::vector<RankMemory>& ranks);

// What the answers of eval.generate take beside the weights while no micro batch is alive; empty where none are
// written.
std::string AnswersText(const Config& config, const LayerGraph& graph, const Grids& grids,
                        const std::vector<RankMemory>& ranks);

}  // namespace trireme
