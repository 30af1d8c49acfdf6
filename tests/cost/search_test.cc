// The search against the whole enumeration, on worlds small enough for it.
#include "cost/search.h"

#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/config/load.h"
#include "session/model_graph.h"

namespace trireme {
namespace {

TEST(Search, FindsWhatTheWholeEnumerationFinds) {
  for (const char* model : {"qwen2.5-0.5b", "qwen3-30b-a3b-8-layers"}) {
    for (const int world : {2, 4, 8}) {
      const Config config = ParseConfig("", "test",
                                        {"tuning.kind=full", Concat("model.path=", MODELS, "/", model),
                                         "data.max_length=1024", "run.global_batch=8"});
      const LayerGraph graph = ReadGraph(config);
      const DeviceRates device = FindDevice("910b1");
      const Assumptions assumptions;
      const std::vector<std::string> fix = {"parallel.replicas=1", "parallel.expert_tensor=1", "memory.recompute=none",
                                            "memory.offload_optimizer=false"};
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
