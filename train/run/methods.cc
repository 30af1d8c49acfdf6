#include "train/run/methods.h"

#include <algorithm>
#include <iterator>

#include "core/base/error.h"
#include "stages/stage.h"
#include "train/methods/distillation/distillation.h"
#include "train/methods/policy/policy_steps.h"
#include "train/methods/preference/preference_steps.h"
#include "train/methods/retrieval/retrieval_steps.h"
#include "train/methods/tokens.h"

namespace trireme {
namespace {

struct Maker {
  MethodKind method;
  std::unique_ptr<Method> (*make)(const Config& config);
};

constexpr Maker kMakers[] = {
    {MethodKind::kTokens, MakeTokensMethod},       {MethodKind::kPreference, MakePreferenceMethod},
    {MethodKind::kPolicy, MakePolicyMethod},       {MethodKind::kDistillation, MakeDistillationMethod},
    {MethodKind::kRetrieval, MakeRetrievalMethod},
};

}  // namespace

std::unique_ptr<Method> MakeMethod(const Config& config) {
  const StageFacts& facts = FactsOf(config);
  const auto* found = std::ranges::find(kMakers, facts.method, &Maker::method);
  TRIREME_CHECK(found != std::end(kMakers)) << "stage " << facts.name << " has a method that no one makes";
  return found->make(config);
}

}  // namespace trireme
