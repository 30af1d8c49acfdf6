// A checkpoint whose keys differ from those of its model's graph is refused by name, whatever its digests
// say: tensors that nobody loads must not exist, and missing ones must not be silently reinitialised.
#include "session/known_tensors.h"

#include <gtest/gtest.h>

#include <functional>
#include <vector>

#include "checkpoint/manifest.h"
#include "checkpoint/store_writer.h"
#include "models/families.h"
#include "parallel/graph/parameters.h"
#include "tests/checkpoint/scratch.h"

namespace trireme {
namespace {

LayerGraph TinyGraph() {
  const Json config = {{"model_type", "llama"},  {"vocab_size", 8},          {"hidden_size", 8},
                       {"num_hidden_layers", 2}, {"num_attention_heads", 2}, {"num_key_value_heads", 1},
                       {"intermediate_size", 8}, {"hidden_act", "silu"},     {"rms_norm_eps", 1e-5}};
  return BuildGraph(HfConfig(config, "config.json"));
}

class KnownTensors : public testing::Test {
 protected:
  KnownTensors() {
    BeginAside(directory_);
    RankFileWriter file(directory_, 0);
    const std::vector<float> zeros(1024);
    for (const Layer& layer : graph_.layers) {
      for (const Parameter& parameter : ParametersOf(graph_, layer, {.size = 1})) {
        for (const HfTensor& tensor : parameter.hf) {
          names_.insert(tensor.name);
          for (const char* state : {"weights/", "exp_avg/", "exp_avg_sq/"}) {
            file.Write({.key = state + tensor.name,
                        .dtype = DType::kFp32,
                        .shape = tensor.shape,
                        .box = {Shape(tensor.shape.size(), 0), tensor.shape},
                        .data = zeros.data(),
                        .strides = RowMajorStrides(tensor.shape)});
          }
        }
      }
    }
    file.Close();
    CommitCheckpoint(directory_, 1, {});
  }

  // What a reader reports after the key `from` became `to`, in a manifest that matches its digest.
  std::string Refusal(const std::string& from, const std::string& to,
                      const std::function<void(const HfDirectory&)>& check) {
    const checkpoint::Manifest good = ReadManifest(directory_);
    checkpoint::Manifest bad = good;
    for (checkpoint::Tensor& tensor : *bad.mutable_tensors()) {
      if (tensor.key() == from) tensor.set_key(to);
    }
    WriteManifestFile(directory_ / kManifestFile, bad);
    const std::string said = ErrorOf([&] { check(HfDirectory(directory_)); });
    WriteManifestFile(directory_ / kManifestFile, good);
    return said;
  }

  Scratch scratch_;
  const std::filesystem::path directory_ = scratch_.path() / "checkpoint-1";
  const LayerGraph graph_ = TinyGraph();
  std::set<std::string> names_;
};

TEST_F(KnownTensors, AnIntactCheckpointIsAccepted) {
  EXPECT_EQ(Refusal("", "",
                    [&](const HfDirectory& files) {
                      RefuseUnknownTensors(files, graph_);
                      RefuseMissingTensors(files, graph_);
                      RefuseUnknownKeys(*files.store(), {names_, names_, {"master", "exp_avg", "exp_avg_sq"}});
                    }),
            "no error");
}

TEST_F(KnownTensors, AKeyThatNoLayerKnowsIsNamed) {
  const std::string said = Refusal("weights/model.norm.weight", "weights/model.nolm.weight",
                                   [&](const HfDirectory& files) { RefuseUnknownTensors(files, graph_); });
  EXPECT_NE(said.find("tensor 'model.nolm.weight' belongs to no layer of a llama model with this config; nearest: "
                      "'model.norm.weight'"),
            std::string::npos)
      << said;
}

TEST_F(KnownTensors, AMissingKeyIsNamed) {
  const std::string said = Refusal("weights/model.norm.weight", "weighty/model.norm.weight",
                                   [&](const HfDirectory& files) { RefuseMissingTensors(files, graph_); });
  EXPECT_NE(said.find("tensor 'model.norm.weight' of a llama model with this config is missing"), std::string::npos)
      << said;
}

TEST_F(KnownTensors, StatesWithoutAParameterAreNamed) {
  const std::string said =
      Refusal("exp_avg_sq/model.norm.weight", "exp_avg_sp/model.norm.weight", [&](const HfDirectory& files) {
        RefuseUnknownKeys(*files.store(), {names_, names_, {"master", "exp_avg", "exp_avg_sq"}});
      });
  EXPECT_NE(said.find("tensor 'exp_avg_sp/model.norm.weight' does not belong to this run; nearest: "
                      "'exp_avg_sq/model.norm.weight'"),
            std::string::npos)
      << said;
}

}  // namespace
}  // namespace trireme
