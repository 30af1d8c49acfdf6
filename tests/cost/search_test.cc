// The search against the whole enumeration, on worlds small enough for it.
#include "cost/search.h"

#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/config/load.h"
#include "session/model_graph.h"

namespace trireme {
namespace {

struct Case {
  const char* model;
  int world;
  std::vector<std::string> fix;
};

TEST(Search, FindsWhatTheWholeEnumerationFinds) {
  const std::vector<std::string> plain = {"parallel.replicas=1", "parallel.expert_tensor=1", "memory.recompute=none",
                                          "memory.offload_optimizer=false"};
  std::vector<Case> cases;
  for (const char* model : {"qwen2.5-0.5b", "qwen3-30b-a3b-8-layers"}) {
    for (const int world : {2, 4, 8}) cases.push_back({model, world, plain});
    // Everything that the others hold, over fewer pipelines.
    cases.push_back({model, 8, {"parallel.pipeline=2", "parallel.schedule=1f1b", "run.micro_batch=1"}});
  }
  for (const auto& [model, world, fix] : cases) {
    const Config config = ParseConfig(
        "", "test",
        {"tuning.kind=full", Concat("model.path=", MODELS, "/", model), "data.max_length=1024", "run.global_batch=8"});
    const LayerGraph graph = ReadGraph(config);
    const DeviceRates device = FindDevice("910b1");
    const Assumptions assumptions;
    const SearchResult best = SearchLayouts(config, graph, device, assumptions, world, {.best = 3, .fix = fix});
    const SearchResult all =
        SearchLayouts(config, graph, device, assumptions, world, {.best = 3, .fix = fix, .prune = false});
    ASSERT_EQ(best.found.size(), all.found.size());
    for (size_t i = 0; i < all.found.size(); ++i) {
      EXPECT_DOUBLE_EQ(best.found[i].step.step_seconds, all.found[i].step.step_seconds) << model << " " << world;
    }
    EXPECT_LE(best.timed, all.timed);
  }
}

// Data-parallel ranks of experts are fewer than of the rest: both must take the replicas.
TEST(Search, ReplicasOfExpertsOnManyRanks) {
  const Config config = ParseConfig("", "test",
                                    {"tuning.kind=full", Concat("model.path=", MODELS, "/qwen3-30b-a3b-8-layers"),
                                     "data.max_length=1024", "run.global_batch=64"});
  const LayerGraph graph = ReadGraph(config);
  const DeviceRates device = FindDevice("h100");
  const Assumptions assumptions;
  const SearchOptions options{
      .best = 1,
      .fix = {"parallel.zero=3", "parallel.replicas=4", "parallel.expert=8", "parallel.expert_tensor=1",
              "parallel.pipeline=1", "parallel.context=1", "parallel.tensor=1", "run.micro_batch=1"}};
  EXPECT_EQ(SearchLayouts(config, graph, device, assumptions, 64, options).found.front().layout.replicas, 4);
}

TEST(Search, SaysWhatIsShort) {
  const Config config = ParseConfig(
      "", "test", {"tuning.kind=full", Concat("model.path=", MODELS, "/llama3-405b"), "run.global_batch=8"});
  const LayerGraph graph = ReadGraph(config);
  const DeviceRates device = FindDevice("h100");
  const Assumptions assumptions;
  try {
    SearchLayouts(config, graph, device, assumptions, 8, {});
    ADD_FAILURE() << "405 billion parameters fit on 8 devices";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("no layout of 8 x h100 fits: the smallest needs"), std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace trireme
