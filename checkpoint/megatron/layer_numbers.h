// Numbers of layers and experts in names, Megatron's and Hugging Face's.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace trireme {

inline constexpr std::string_view kDecoder = "decoder.layers.", kMtp = "mtp.layers.", kHfLayers = "model.layers.";
inline constexpr std::string_view kMtpInner = "transformer_layer.";
inline constexpr std::string_view kHfEmbedding = "model.embed_tokens.weight", kHfHead = "lm_head.weight";

// A number after `prefix`, and what follows its dot; nothing if there is none.
std::optional<int64_t> NumberAfter(const std::string& name, std::string_view prefix, std::string& rest);
// "mlp.experts.7.linear_fc1.weight" to "mlp.experts.*.linear_fc1.weight".
std::optional<int64_t> TakeExpert(std::string& name);
std::string WithExpert(std::string name, std::optional<int64_t> expert);

}  // namespace trireme
