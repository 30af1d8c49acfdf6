// Configs of small models, for tests, and what becomes of them.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "core/base/error.h"
#include "models/families.h"

namespace trireme {

inline Json Config(const char* model_type, const Json& changes = Json::object()) {
  Json config = {{"model_type", model_type}, {"vocab_size", 100},        {"hidden_size", 32},
                 {"num_hidden_layers", 2},   {"num_attention_heads", 4}, {"num_key_value_heads", 2},
                 {"intermediate_size", 48},  {"hidden_act", "silu"},     {"rms_norm_eps", 1e-5}};
  config.update(changes);
  return config;
}

inline LayerGraph Build(const Json& config) { return BuildGraph(HfConfig(config, "config.json")); }

inline std::string RefusalOf(const Json& config) {
  try {
    Build(config);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInput);
    return error.what();
  }
  return "accepted";
}

inline const DecoderSpec& Decoder(const LayerGraph& graph) { return std::get<DecoderSpec>(graph.layers.at(1).spec); }

}  // namespace trireme
