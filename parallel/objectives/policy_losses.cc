#include "parallel/objectives/policy_losses.h"

#include <algorithm>
#include <iterator>

namespace trireme {
namespace {

constexpr PolicyLossKind kPolicyLosses[] = {
    {"grpo", PolicyTerm::kClipped, PolicyMean::kCompletionTokens},
    {"bnpo", PolicyTerm::kClipped, PolicyMean::kTokens},
    {"dr_grpo", PolicyTerm::kClipped, PolicyMean::kLongest},
    {"dapo", PolicyTerm::kClipped, PolicyMean::kWindow},
    {"cispo", PolicyTerm::kCispo, PolicyMean::kWindow},
    {"gspo", PolicyTerm::kClipped, PolicyMean::kCompletionTokens, RatioOf::kMean},
    {"sapo", PolicyTerm::kSapo, PolicyMean::kCompletionTokens},
    {"luspo", PolicyTerm::kClipped, PolicyMean::kCompletions},
};

}  // namespace

const PolicyLossKind* FindPolicyLoss(const std::string& name) {
  const auto found = std::ranges::find_if(kPolicyLosses, [&](const PolicyLossKind& loss) { return name == loss.name; });
  return found == std::end(kPolicyLosses) ? nullptr : found;
}

std::vector<std::string> PolicyLossNames() {
  std::vector<std::string> names;
  for (const PolicyLossKind& known : kPolicyLosses) names.emplace_back(known.name);
  return names;
}

PolicyLossKind PolicyLossOf(const Config& config) {
  if (config.stage() == STAGE_PPO) return {"ppo", PolicyTerm::kClipped, PolicyMean::kTokens, RatioOf::kToken};
  return *FindPolicyLoss(config.rl().loss());
}

RatioOf RatioOfLoss(const Config& config) {
  if (config.stage() == STAGE_RLOO) return RatioOf::kCompletion;
  const RatioOf asked = config.rl().level() == LEVEL_SEQUENCE ? RatioOf::kMean : RatioOf::kToken;
  return PolicyLossOf(config).ratio.value_or(asked);
}

bool HasKlLoss(const Config& config) { return config.stage() == STAGE_GRPO && config.rl().beta() > 0; }

}  // namespace trireme
