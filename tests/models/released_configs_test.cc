// The config.json files of released models are accepted as they are, and give as many parameters as transformers counts.
#include <gtest/gtest.h>

#include <cctype>

#include "core/base/json.h"
#include "models/families.h"
#include "parallel/graph/parameters.h"

namespace trireme {
namespace {

struct Released {
  const char* name;
  const char* config;
  int64_t parameters;  // sum(p.numel() for p in model.parameters())
};

const Released kReleased[] = {
};

int64_t CountParameters(const LayerGraph& graph) {
  int64_t count = 0;
  for (const Layer& layer : graph.layers) {
    for (const Parameter& parameter : ParametersOf(graph, layer, {})) {
      if (parameter.is_buffer) continue;
      for (const HfTensor& tensor : parameter.hf) count += tensor.box.elements();
    }
  }
  return count;
}

class ReleasedConfigs : public testing::TestWithParam<Released> {};

TEST_P(ReleasedConfigs, HaveTransformersParameters) {
  const LayerGraph graph = BuildGraph(HfConfig(ParseJson(GetParam().config, "config.json"), "config.json"));
  EXPECT_EQ(CountParameters(graph), GetParam().parameters);
}

INSTANTIATE_TEST_SUITE_P(All, ReleasedConfigs, testing::ValuesIn(kReleased), [](const auto& info) {
  std::string name = info.param.name;
  for (char& letter : name) letter = std::isalnum(static_cast<unsigned char>(letter)) != 0 ? letter : '_';
  return name;
});

}  // namespace
}  // namespace trireme
