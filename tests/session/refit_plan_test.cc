// Plans between layouts, played on plain memory: whatever the two layouts are, each rank ends with each of its elements
// once, from a rank that had it, and what it had already is not sent.
#include "session/refit_plan.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "core/base/json.h"
#include "models/families.h"

namespace trireme {
namespace {

LayerGraph DenseGraph(bool tied) {
  const Json config = {{"model_type", "qwen3"},  {"vocab_size", 10},           {"hidden_size", 8},
                       {"num_hidden_layers", 4}, {"num_attention_heads", 4},   {"num_key_value_heads", 2},
                       {"head_dim", 2},          {"intermediate_size", 12},    {"hidden_act", "silu"},
                       {"rms_norm_eps", 1e-5},   {"tie_word_embeddings", tied}};
  return BuildGraph(HfConfig(config, "config.json"));
}

LayerGraph ExpertGraph() {
  const Json config = {{"model_type", "qwen3_moe"},
                       {"vocab_size", 10},
                       {"hidden_size", 8},
                       {"num_hidden_layers", 2},
                       {"num_attention_heads", 4},
                       {"num_key_value_heads", 2},
                       {"head_dim", 2},
                       {"intermediate_size", 12},
                       {"hidden_act", "silu"},
                       {"rms_norm_eps", 1e-5},
                       {"tie_word_embeddings", false},
                       {"num_experts", 4},
                       {"num_experts_per_tok", 2},
                       {"moe_intermediate_size", 4},
                       {"norm_topk_prob", true},
                       {"decoder_sparse_step", 1},
                       {"mlp_only_layers", Json::array()}};
  return BuildGraph(HfConfig(config, "config.json"));
}

struct Layout {
  int tensor = 1, pipeline = 1, expert = 1, context = 1;
};

Config ConfigOf(const Layout& layout) {
  Config config;
  config.mutable_parallel()->set_tensor(layout.tensor);
  config.mutable_parallel()->set_pipeline(layout.pipeline);
  config.mutable_parallel()->set_expert(layout.expert);
  config.mutable_parallel()->set_context(layout.context);
  config.mutable_run()->set_global_batch(16);
  return config;
}

int64_t FlatIndex(const Shape& shape, const Shape& at) {
  int64_t index = 0;
  for (size_t dim = 0; dim < shape.size(); ++dim) index = index * shape[dim] + at[dim];
  return index;
}

std::vector<int64_t> IndicesOf(const Box& box, const Shape& shape) {
  std::vector<int64_t> found;
  Shape at = box.offset;
  for (int64_t left = box.elements(); left > 0; --left) {
    found.push_back(FlatIndex(shape, at));
    for (size_t dim = shape.size(); dim-- > 0;) {
      if (++at[dim] < box.offset[dim] + box.extent[dim]) break;
      at[dim] = box.offset[dim];
    }
  }
  return found;
}

using Held = std::map<std::pair<std::string, int64_t>, int>;  // parameter and element: how often
std::vector<Held> HeldBy(const LaidOutModel& model) {
  std::vector<Held> held(static_cast<size_t>(model.plan.grids.world()));
  for (size_t layer = 0; layer < model.graph.layers.size(); ++layer) {
    for (const Parameter& parameter : ParametersOf(model.graph, model.graph.layers[layer], model.split)) {
      const Shape shape = Placement(parameter.declaration, model.plan.grids).GlobalShape();
      for (size_t rank = 0; rank < held.size(); ++rank) {
        for (const Box& box : BoxesHeld(model, layer, parameter, static_cast<int>(rank))) {
          for (const int64_t index : IndicesOf(box, shape)) ++held[rank][{parameter.declaration.name, index}];
        }
      }
    }
  }
  return held;
}

// The elements that were sent between ranks.
int64_t Play(const LayerGraph& graph, int world, const Layout& a, const Layout& b) {
  const Config first = ConfigOf(a), second = ConfigOf(b);
  const RunPlan from_plan = PlanRun(first, graph, world), to_plan = PlanRun(second, graph, world);
  const LaidOutModel from{graph, from_plan, SplitOf(first.parallel())}, to{graph, to_plan, SplitOf(second.parallel())};
  const std::vector<Held> before = HeldBy(from), wanted = HeldBy(to);
  const RefitPlan plan = PlanRefit(from, to, DType::kBf16);
  std::vector<Held> after(static_cast<size_t>(world));
  int64_t sent = 0;
  for (const RefitMove& move : plan.moves) {
    const RefitParameter& parameter = plan.parameters.at(move.parameter);
    for (const int64_t index : IndicesOf(move.box, parameter.shape)) {
      const std::pair<std::string, int64_t> element{parameter.name, index};
      EXPECT_TRUE(before[static_cast<size_t>(move.source)].contains(element)) << parameter.name << " " << index;
      if (move.source != move.destination) {
        EXPECT_FALSE(before[static_cast<size_t>(move.destination)].contains(element)) << parameter.name << " is there";
        ++sent;
      }
      ++after[static_cast<size_t>(move.destination)][element];
    }
    EXPECT_EQ(plan.Bytes(move), move.box.elements() * 2);
  }
  int64_t elements = 0;
  for (const RefitParameter& parameter : plan.parameters) elements += Elements(parameter.shape);
  Held anywhere;
  for (const Held& held : wanted) anywhere.insert(held.begin(), held.end());
  EXPECT_EQ(std::ssize(anywhere), elements) << "the layout holds every element somewhere";
  for (size_t rank = 0; rank < after.size(); ++rank) EXPECT_EQ(after[rank], wanted[rank]) << "rank " << rank;
  return sent;
}

TEST(RefitPlanTest, MovesEachElementOnce) {
  const std::vector<Layout> layouts = {
      {}, {.tensor = 2}, {.tensor = 4}, {.pipeline = 2}, {.pipeline = 4}, {.tensor = 2, .pipeline = 2}, {.context = 2}};
  for (const bool tied : {false, true}) {
    const LayerGraph graph = DenseGraph(tied);
    for (const Layout& a : layouts) {
      for (const Layout& b : layouts) {
        SCOPED_TRACE(testing::Message() << a.tensor << a.pipeline << a.context << " to " << b.tensor << b.pipeline
                                        << b.context);
        Play(graph, 4, a, b);
      }
    }
  }
}

TEST(RefitPlanTest, MovesExperts) {
  const LayerGraph graph = ExpertGraph();
  const std::vector<Layout> layouts = {
      {}, {.expert = 2}, {.expert = 4}, {.tensor = 2, .expert = 2}, {.pipeline = 2, .expert = 2}};
  for (const Layout& a : layouts) {
    for (const Layout& b : layouts) {
      SCOPED_TRACE(testing::Message() << a.tensor << a.pipeline << a.expert << " to " << b.tensor << b.pipeline
                                      << b.expert);
      Play(graph, 4, a, b);
    }
  }
}

TEST(RefitPlanTest, SendsNothingThatIsThere) {
  const LayerGraph graph = DenseGraph(false);
  EXPECT_EQ(Play(graph, 4, {.tensor = 2}, {.tensor = 2}), 0);
  EXPECT_EQ(Play(graph, 4, {}, {.tensor = 2, .pipeline = 2}), 0) << "every rank has all weights";
  EXPECT_GT(Play(graph, 4, {.tensor = 2}, {}), 0);
}

TEST(RefitPlanTest, GivesTheHeadItsEmbedding) {
  const LayerGraph graph = DenseGraph(/*tied=*/true);
  const Config config = ConfigOf({.pipeline = 2});
  const RunPlan plan = PlanRun(config, graph, 2);
  const LaidOutModel model{graph, plan, SplitOf(config.parallel())};
  const Parameter embedding = ParametersOf(graph, graph.layers[0], model.split).at(0);
  for (const int rank : {0, 1}) {
    EXPECT_EQ(BoxesHeld(model, 0, embedding, rank), (std::vector<Box>{{{0, 0}, {10, 8}}})) << "rank " << rank;
  }
}

TEST(RefitPlanTest, LetsHoldersTakeTurns) {
  const Config first = ConfigOf({.pipeline = 2}), second = ConfigOf({});
  const LayerGraph graph = DenseGraph(false);
  const RunPlan from_plan = PlanRun(first, graph, 4), to_plan = PlanRun(second, graph, 4);
  const RefitPlan plan = PlanRefit({graph, from_plan, SplitOf(first.parallel())},
                                   {graph, to_plan, SplitOf(second.parallel())}, DType::kFp32);
  std::map<std::pair<int, int>, int64_t> bytes;
  for (const RefitMove& move : plan.moves) bytes[{move.source, move.destination}] += plan.Bytes(move);
  EXPECT_EQ((bytes[{0, 2}]), (bytes[{1, 3}])) << ToText(plan);
  EXPECT_EQ((bytes[{2, 0}]), (bytes[{3, 1}])) << ToText(plan);
  EXPECT_EQ(bytes.contains({0, 3}), false);
}

}  // namespace
}  // namespace trireme
