#include "train/plan/sampling_plan.h"

#include <algorithm>
#include <iomanip>
#include <sstream>
#include <variant>

#include "core/base/rounding.h"
#include "core/base/text.h"
#include "generation/cache_bytes.h"
#include "parallel/graph/parameters.h"
#include "stages/distillation_check.h"
#include "stages/evaluation_check.h"
#include "stages/other_models.h"
#include "stages/stage.h"
#include "train/plan/other_graphs.h"

namespace trireme {
namespace {

constexpr int64_t kMostSampledRows = 256;

int64_t RewardBytes(const Config& config, const Grids& grids) {
  int64_t parameters = 0, shards = 1;
  for (const OtherModel& model : OtherModels(config, ModelRole::kReward)) {
    parameters += CountParameters(GraphOf(config, model), /*trained_only=*/false);
    if (model.shard) shards = ShardRanks(grids, GridKind::kDense);
  }
  const int64_t element = config.model().dtype() == DTYPE_FP32 ? 4 : 2;
  return parameters * element / (grids.dense.Size("tp") * grids.dense.Size("pp") * shards);
}

// Of one step's rows: each rank's part, and all of them, whole and in fp32 for the sampler.
int64_t SampledLogitBytes(const LayerGraph& graph, const Config& config, const Grids& grids, int64_t rows) {
  const int64_t vocabulary = std::get<HeadSpec>(graph.layers.back().spec).vocabulary;
  const int64_t element = config.model().dtype() == DTYPE_FP32 ? 4 : 2;
  const int64_t whole = rows * vocabulary * element;
  return whole / grids.dense.Size("tp") + whole + rows * vocabulary * int64_t{sizeof(float)};
}

int64_t CacheBytes(const LayerGraph& graph, const Config& config, const Grids& grids, int64_t rows, int64_t tokens) {
  return tokens * CacheBytesPerToken(graph, config, grids) + rows * StateBytesPerRow(graph, config, grids);
}

double MiB(int64_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

}  // namespace

bool Samples(const Config& config) {
  if (FactsOf(config).method == MethodKind::kDistillation) return DistillationSamples(config);
  return FactsOf(config).on_completions() && config.rl().rollouts().empty() && config.rl().sampler().endpoint().empty();
}

SamplingPlan PlanSampling(const Config& config, const LayerGraph& graph, const Grids& grids) {
  const int64_t rows = int64_t{config.run().global_batch()} * config.rl().steps_per_generation();
  const int64_t replicas = grids.dense.Size("dp");
  SamplingPlan plan{.rows = std::min(DivideUp(rows, replicas), kMostSampledRows)};
  plan.reward_bytes = RewardBytes(config, grids);
  if (OtherModelOf(config, ModelRole::kSampler)) {
    const int64_t element = config.model().dtype() == DTYPE_FP32 ? 4 : 2;
    plan.weight_bytes =
        CountParameters(graph, /*trained_only=*/false) * element / (grids.dense.Size("tp") * grids.dense.Size("pp"));
  }
  plan.cached_tokens = plan.rows * RoundUp(int64_t{config.data().max_length()}, kCacheBlock);
  plan.cache_bytes = CacheBytes(graph, config, grids, plan.rows, plan.cached_tokens);
  plan.logit_bytes = SampledLogitBytes(graph, config, grids, plan.rows);
  return plan;
}

std::string SamplingText(const Config& config, const SamplingPlan& plan, const std::vector<RankMemory>& ranks) {
  if (!Samples(config) && !EvaluatesCompletions(config)) return "";
  int64_t idle = 0, device = 0, optimizer = 0;
  for (const RankMemory& rank : ranks) {
    device = std::max(device, rank.device());
    idle = std::max(idle, rank.activations + rank.logits + rank.gradients);
    if (config.rl().offload_optimizer()) optimizer = std::max(optimizer, rank.masters + rank.moments);
  }
  std::ostringstream text;
  text << std::fixed << std::setprecision(1) << "sampling: " << Counted(plan.rows, "completion")
       << " at once on each data-parallel rank, with at most " << MiB(plan.cache_bytes)
       << " MiB of keys and values and " << MiB(plan.logit_bytes)
       << " MiB of logits; the activations, logits and gradients of training, " << MiB(idle) << " MiB, are free then";
  if (optimizer > 0) text << ", and its masters and moments, " << MiB(optimizer) << " MiB, in host memory";
  text << "\n  most device memory per rank: training " << MiB(device) << " MiB, sampling "
       << MiB(device - idle - optimizer + plan.cache_bytes + plan.logit_bytes) << " MiB";
  if (plan.weight_bytes > 0)
    text << ", and the weights under rl.sampling about " << MiB(plan.weight_bytes) << " MiB in both";
  if (plan.reward_bytes > 0) text << ", and reward models about " << MiB(plan.reward_bytes) << " MiB in both";
  text << "\n";
  return text.str();
}

std::string AnswersText(const Config& config, const LayerGraph& graph, const Grids& grids,
                        const std::vector<RankMemory>& ranks) {
  if (!config.eval().generate() || FactsOf(config).on_completions()) return "";
  const int64_t rows = config.eval().batch();
  const int64_t longest = int64_t{config.data().max_length()} + config.eval().max_new_tokens();
  const int64_t tokens = rows * RoundUp(longest, kCacheBlock);
  const int64_t cache = CacheBytes(graph, config, grids, rows, tokens),
                logits = SampledLogitBytes(graph, config, grids, rows);
  int64_t most = 0;
  for (const RankMemory& rank : ranks) most = std::max(most, rank.device() - rank.activations - rank.logits);
  std::ostringstream text;
  text << std::fixed << std::setprecision(1) << "evaluation: " << Counted(rows, "answer")
       << " at once on each data-parallel rank, with at most " << MiB(cache) << " MiB of keys and values and "
       << MiB(logits) << " MiB of logits; most device memory per rank then: " << MiB(most + cache + logits) << " MiB\n";
  return text.str();
}

}  // namespace trireme
