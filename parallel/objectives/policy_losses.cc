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

PolicyRules GrpoRules(const PolicyLossOptions& options) {
  PolicyRules rules = ReinforceRules(options);
  rules.kl = options.beta > 0;
  return rules;
}

PolicyRules RlooRules(const PolicyLossOptions& options) {
  return {*FindPolicyLoss(options.loss), RatioOf::kCompletion};
}

PolicyRules ReinforceRules(const PolicyLossOptions& options) {
  const PolicyLossKind& loss = *FindPolicyLoss(options.loss);
  const RatioOf asked = options.sequence_level ? RatioOf::kMean : RatioOf::kToken;
  return {loss, loss.ratio.value_or(asked)};
}

PolicyRules PpoRules(const PolicyLossOptions& /*options*/) {
  return {{"ppo", PolicyTerm::kClipped, PolicyMean::kTokens}, RatioOf::kToken};
}

}  // namespace trireme
