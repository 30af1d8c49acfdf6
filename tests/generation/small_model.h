// A small model with random weights for tests of the engine, under any layout of the test's ranks.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <exception>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "core/config/load.h"
#include "session/session.h"
#include "tests/core/comm/spmd.h"

namespace trireme {

inline constexpr int64_t kVocabulary = 96;

inline const char* const kHeads = R"({"model_type": "qwen3", "architectures": ["Qwen3ForCausalLM"], "vocab_size": 96,
  "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 4, "num_attention_heads": 4,
  "num_key_value_heads": 2, "head_dim": 8, "max_position_embeddings": 512, "rms_norm_eps": 1e-6,
  "rope_theta": 10000.0, "tie_word_embeddings": false, "hidden_act": "silu", "attention_bias": false,
  "initializer_range": 0.3, "eos_token_id": 0})";

// A model directory of this test run; removed at the end by the rank that created it.
class ModelFolder {
 public:
  explicit ModelFolder(const char* config)
      : folder_(testing::TempDir() + "trireme_engine_" + TestJob().GatherStrings(std::to_string(getpid()))[0]) {
    if (TestJob().rank() == 0) {
      std::filesystem::create_directories(folder_);
      std::ofstream(folder_ / "config.json") << config;
    }
    TestJob().Barrier();
  }
  ~ModelFolder() {
    if (std::uncaught_exceptions() > 0) return;  // the other ranks may not be here
    TestJob().Barrier();
    if (TestJob().rank() == 0) std::filesystem::remove_all(folder_);
  }
  std::string path() const { return folder_.string(); }

 private:
  const std::filesystem::path folder_;
};

inline std::unique_ptr<Session> Open(const ModelFolder& model, std::vector<std::string> layout) {
  layout.insert(layout.end(), {"model.path=" + model.path(), "model.init=random", "model.dtype=fp32", "device=cpu",
                               "tuning.kind=full", "run.micro_batch=1", "run.seed=7"});
  auto session = Session::Open(ParseConfig("", "test", layout), TestJob());
  session->TakeWeights();
  return session;
}

}  // namespace trireme
