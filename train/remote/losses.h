// The losses that clients of remote training may ask for: their names, and what each takes. No torch; what they compute
// is in work_losses.h.
#pragma once

#include <string>
#include <vector>

namespace trireme {

// What a datum brings along, by position. Those that a loss does not take are empty.
struct LossInputs {
  std::vector<float> weights = {};   // of cross_entropy
  std::vector<float> logprobs = {};  // by the sampler
  std::vector<float> advantages = {};
  std::vector<float> sequence_ratio_mask = {};  // of gspo
};

// Numbers of loss_fn_config, with the defaults of the loss.
struct LossNumbers {
  double clip_low = 0, clip_high = 0;  // bounds of the ratio, not distances from 1
  double beta = 0;                     // of dro
};

// A loss that the service knows.
struct LossKind {
  std::string name;
  std::vector<std::string> inputs;     // beside target_tokens, all of them required
  bool clips = false;                  // takes the two thresholds
  bool needs_thresholds = false;       // without defaults
  double clip_low = 0, clip_high = 0;  // their defaults
  bool needs_beta = false;
};
const LossKind* FindLoss(const std::string& name);  // nullptr: there is no such loss
std::vector<std::string> LossNames();

}  // namespace trireme
