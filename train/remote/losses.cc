#include "train/remote/losses.h"

namespace trireme {
namespace {

const std::vector<LossKind>& Kinds() {
  static const std::vector<std::string> policy = {"logprobs", "advantages"};
  static const std::vector<LossKind> kinds = {
      {.name = "cross_entropy", .inputs = {"weights"}},
      {.name = "importance_sampling", .inputs = policy},
      {.name = "ppo", .inputs = policy, .clips = true, .clip_low = 0.8, .clip_high = 1.2},
      {.name = "cispo", .inputs = policy, .clips = true, .clip_low = 0.0, .clip_high = 4.0},
      {.name = "dro", .inputs = policy, .needs_beta = true},
      {.name = "gspo",
       .inputs = {"logprobs", "advantages", "sequence_ratio_mask"},
       .clips = true,
       .needs_thresholds = true}};
  return kinds;
}

}  // namespace

const LossKind* FindLoss(const std::string& name) {
  for (const LossKind& kind : Kinds()) {
    if (kind.name == name) return &kind;
  }
  return nullptr;
}

std::vector<std::string> LossNames() {
  std::vector<std::string> names;
  for (const LossKind& kind : Kinds()) names.push_back(kind.name);
  return names;
}

}  // namespace trireme
