#include "session/refit_plan.h"

#include <algorithm>
#include <iomanip>
#include <map>
#include <sstream>
#include <utility>

#include "core/base/error.h"
#include "core/base/text.h"

namespace trireme {
namespace {

// A box with the ranks that hold it, in ascending order.
struct HeldBox {
  Box box;
  std::vector<int> ranks;
};

bool HoldsLayer(const LaidOutModel& model, size_t layer, int rank) {
  const RunPlan& plan = model.plan;
  const int position = plan.grids.dense.Coordinate(rank, "pp");
  bool here = false, has_head = false;
  for (int chunk = 0; chunk < plan.placement.chunks; ++chunk) {
    const StageLayers& stage = plan.stages.at(static_cast<size_t>(plan.placement.StageAt(position, chunk)));
    here |= layer >= stage.begin && layer < stage.end;
    has_head |= stage.end == model.graph.layers.size();
  }
  return here || (layer == 0 && has_head && UsesEmbeddingAgain(model.graph));
}

std::vector<HeldBox> HoldersOf(const LaidOutModel& model, size_t layer, const Parameter& parameter) {
  std::map<std::pair<Shape, Shape>, std::vector<int>> holders;
  for (int rank = 0; rank < model.plan.grids.world(); ++rank) {
    for (const Box& box : BoxesHeld(model, layer, parameter, rank)) holders[{box.offset, box.extent}].push_back(rank);
  }
  std::vector<HeldBox> held;
  for (auto& [box, ranks] : holders) held.push_back({{box.first, box.second}, std::move(ranks)});
  return held;
}

void AddMoves(size_t parameter, const std::vector<HeldBox>& from, const std::vector<HeldBox>& to, RefitPlan& plan) {
  for (const HeldBox& source : from) {
    for (const HeldBox& target : to) {
      const std::optional<Box> shared = Intersect(source.box, target.box);
      if (!shared) continue;
      size_t turn = 0;
      for (const int rank : target.ranks) {
        const bool keeps = std::ranges::binary_search(source.ranks, rank);
        const int sender = keeps ? rank : source.ranks[turn++ % source.ranks.size()];
        plan.moves.push_back({.parameter = parameter, .source = sender, .destination = rank, .box = *shared});
      }
    }
  }
}

double RefitMiB(int64_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

}  // namespace

int64_t RefitPlan::Bytes(const RefitMove& move) const {
  return move.box.elements() * ByteSize(parameters.at(move.parameter).dtype);
}

std::vector<Box> BoxesHeld(const LaidOutModel& model, size_t layer, const Parameter& parameter, int rank) {
  if (!HoldsLayer(model, layer, rank)) return {};
  std::vector<Box> boxes;
  for (const LocalBox& box : Placement(parameter.declaration, model.plan.grids).LocalBoxes(rank))
    boxes.push_back(box.global);
  return boxes;
}

RefitPlan PlanRefit(const LaidOutModel& from, const LaidOutModel& to, DType dtype) {
  RefitPlan plan{.world = from.plan.grids.world(), .parameters = {}, .moves = {}};
  TRIREME_CHECK(plan.world == to.plan.grids.world() && from.graph.layers.size() == to.graph.layers.size());
  for (size_t layer = 0; layer < from.graph.layers.size(); ++layer) {
    const std::vector<Parameter> sources = ParametersOf(from.graph, from.graph.layers[layer], from.split);
    const std::vector<Parameter> targets = ParametersOf(to.graph, to.graph.layers[layer], to.split);
    TRIREME_CHECK(sources.size() == targets.size());
    for (size_t i = 0; i < sources.size(); ++i) {
      const ParameterDeclaration& declared = sources[i].declaration;
      TRIREME_CHECK(declared.name == targets[i].declaration.name);
      plan.parameters.push_back({.name = declared.name,
                                 .layer = layer,
                                 .shape = Placement(declared, from.plan.grids).GlobalShape(),
                                 .dtype = sources[i].is_buffer ? DType::kFp32 : dtype});
      AddMoves(plan.parameters.size() - 1, HoldersOf(from, layer, sources[i]), HoldersOf(to, layer, targets[i]), plan);
    }
  }
  return plan;
}

std::string ToText(const RefitPlan& plan) {
  std::vector<std::map<int, int64_t>> received(static_cast<size_t>(plan.world));  // bytes by source
  int64_t sent = 0, messages = 0;
  for (const RefitMove& move : plan.moves) {
    received[static_cast<size_t>(move.destination)][move.source] += plan.Bytes(move);
    if (move.source == move.destination) continue;
    sent += plan.Bytes(move);
    ++messages;
  }
  std::ostringstream text;
  text << std::fixed << std::setprecision(1) << "refit: " << Counted(std::ssize(plan.parameters), "parameter") << ", "
       << RefitMiB(sent) << " MiB in " << Counted(messages, "message") << " between ranks\n";
  for (int rank = 0; rank < plan.world; ++rank) {
    const std::map<int, int64_t>& of = received[static_cast<size_t>(rank)];
    text << "  rank " << rank << ": keeps " << RefitMiB(of.contains(rank) ? of.at(rank) : 0) << " MiB";
    for (const auto& [source, bytes] : of) {
      if (source != rank) text << ", receives " << RefitMiB(bytes) << " MiB from rank " << source;
    }
    text << "\n";
  }
  return text.str();
}

}  // namespace trireme
