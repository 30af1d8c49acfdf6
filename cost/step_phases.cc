// Parts of a step that a layout alone does not show: its phases, as papers report them, and the sampling of completions
// before the passes of policy stages.
#include <algorithm>

#include "cost/run_bytes.h"
#include "cost/step_model.h"
#include "stages/stage.h"

namespace trireme {
namespace {

// Of one rank's events: before its first backward pass, after its last forward pass, and between them.
void AddPhases(const RankTimeline& rank, StepPhases& phases) {
  double first_backward = rank.compute.back().end, last_forward = 0;
  for (const TimedAction& timed : rank.compute) {
    if (timed.action.kind == ActionKind::kForward)
      last_forward = std::max(last_forward, timed.end);
    else
      first_backward = std::min(first_backward, timed.start);
  }
  for (const TimedAction& timed : rank.compute) {
    const double seconds = timed.end - timed.start;
    if (timed.end <= first_backward)
      phases.forward += seconds;
    else if (timed.start < last_forward)
      phases.both += seconds;
    else
      (timed.action.kind == ActionKind::kBackwardWeight ? phases.weight : phases.backward) += seconds;
  }
}

double KeyValueBytes(const AttentionSpec& attention, int tensor, double element_bytes) {
  if (attention.latent)
    return static_cast<double>(attention.latent->kv_rank + attention.latent->qk_rope_head_dim) * element_bytes;
  const auto heads = static_cast<double>(std::max<int64_t>(attention.kv_heads / tensor, 1));
  return 2 * heads * static_cast<double>(attention.head_dim) * element_bytes;
}

}  // namespace

StepPhases StepModel::Phases(const Layout& layout) {
  const StepEstimate step = Time(layout);
  const Timeline timeline = Events(layout);
  const std::vector<Durations> durations = DurationsOf(layout, StagesOf(layout));
  const StagePlacement& placement = PlacementOf(layout);
  int busiest = 0;
  double most = 0;  // seconds of a micro batch
  for (int rank = 0; rank < layout.pipeline; ++rank) {
    double busy = 0;
    for (int chunk = 0; chunk < placement.chunks; ++chunk) {
      const Durations& one = durations[static_cast<size_t>(placement.StageAt(rank, chunk))];
      busy += one.forward + one.backward_input + one.backward_weight;
    }
    if (busy > most) busiest = rank;
    most = std::max(most, busy);
  }
  StepPhases phases;
  AddPhases(timeline.ranks[static_cast<size_t>(busiest)], phases);
  phases.both += (MicroBatches(layout) - Shown(layout)) * most;
  phases.optimizer = step.parts.optimizer + (layout.zero < 2 ? step.parts.data : 0);
  phases.sampling = step.parts.sampling;
  phases.bubble = std::max(0.0, step.step_seconds - phases.forward - phases.backward - phases.weight - phases.both -
                                    phases.optimizer - phases.sampling);
  return phases;
}

// Prompts once through the model, then a token of all rows at a time: weights and cache are read for each. A pipeline's
// stages take turns. Completions are as long as rl.max_new_tokens allows.
double StepModel::SamplingSeconds(const Layout& layout) {
  if (FactsOf(config_).method != MethodKind::kPolicy || !config_.rl().rollouts().empty()) return 0;
  const auto& rl = config_.rl();
  const double rows =
      std::max(1.0, static_cast<double>(config_.run().global_batch()) / rl.iterations() / layout.data());
  const auto tokens = static_cast<double>(rl.max_new_tokens());
  const double prompt = std::max(1.0, static_cast<double>(length_) - tokens);
  const std::vector<LayerWork>& works = Works(layout);
  LayerLayout drawn = LayerLayoutOf(layout), read = drawn;
  drawn.context = drawn.ulysses = read.context = read.ulysses = 1;
  drawn.micro_batch = static_cast<int>(rows);
  drawn.length = 1;
  read.micro_batch = static_cast<int>(std::max(1.0, rl.share_prompt() ? rows / rl.group() : rows));
  read.length = static_cast<int64_t>(prompt);
  const double rate = device_.memory_gbs * 1e9 * std::min(device_.rest_efficiency, 1.0);
  double seconds = 0;
  std::map<size_t, double> priced;
  for (size_t i = 0; i < graph_.layers.size(); ++i) {
    const auto [at, is_new] = priced.try_emplace(like_[i], 0);
    if (is_new) {
      const Layer& layer = graph_.layers[i];
      const DecoderSpec* decoder = DecoderOf(layer.spec);
      const double cache =
          decoder == nullptr || decoder->attention.delta
              ? 0
              : rows * (prompt + tokens / 2) * KeyValueBytes(decoder->attention, layout.tensor, read.element_bytes);
      const double one = pricer_.Price(layer, works[i], drawn, RECOMPUTE_NONE, false).forward.total() + cache / rate;
      at->second = tokens * one + pricer_.Price(layer, works[i], read, RECOMPUTE_NONE, false).forward.total();
    }
    seconds += at->second;
  }
  return seconds;
}

}  // namespace trireme
