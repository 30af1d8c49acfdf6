// How files name a value head beside the logits: in a run's checkpoints it is among the weights; beside a Hugging Face
// model or a PEFT adapter it is a file of its own, as LLaMA-Factory writes it. Names only.
#pragma once

#include <string>

namespace trireme {

inline constexpr char kValueHeadFile[] = "value_head.safetensors";
inline constexpr char kValueHeadWeight[] = "v_head.summary.weight";  // [1, hidden]
inline constexpr char kValueHeadBias[] = "v_head.summary.bias";      // [1]

inline bool IsValueHead(const std::string& name) { return name == kValueHeadWeight || name == kValueHeadBias; }

}  // namespace trireme
