// The list of stages. A new one is a value of Stage in core/config.proto and a line here.
#include <algorithm>
#include <iterator>

#include "core/base/error.h"
#include "stages/policy_check.h"
#include "stages/ppo_check.h"
#include "stages/preference_check.h"
#include "stages/retrieval_check.h"
#include "stages/stage.h"

namespace trireme {
namespace {

using enum Records;
using enum MethodKind;
constexpr bool kAlone = false, kCompares = true;  // with a reference

constexpr StageFacts kStages[] = {
    {STAGE_PT, "pt", kText, kTokens, "cross_entropy"},
    {STAGE_SFT, "sft", kConversations, kTokens, "cross_entropy"},
    {STAGE_DPO, "dpo", kPairs, kPreference, "dpo", kCompares},
    {STAGE_KTO, "kto", kJudged, kPreference, "kto", kCompares},
    {STAGE_ORPO, "orpo", kPairs, kPreference, "orpo"},
    {STAGE_SIMPO, "simpo", kPairs, kPreference, "simpo"},
    {STAGE_CPO, "cpo", kPairs, kPreference, "cpo"},
    {STAGE_RM, "rm", kPairs, kPreference, "rm", kAlone, Baseline::kNone, HeadKind::kScore},
    {STAGE_GRPO, "grpo", kPrompts, kPolicy, "grpo", kCompares, Baseline::kGroup},
    {STAGE_RLOO, "rloo", kPrompts, kPolicy, "rloo", kCompares, Baseline::kOthers},
    {STAGE_REINFORCE_PLUS_PLUS, "reinforce_plus_plus", kPrompts, kPolicy, "reinforce_plus_plus", kCompares,
     Baseline::kBatch},
    {STAGE_GKD, "gkd", kConversations, kDistillation, "gkd", kCompares},
    {STAGE_PPO, "ppo", kPrompts, kPolicy, "ppo_policy", kCompares, Baseline::kValues},
    {STAGE_BCO, "bco", kJudged, kPreference, "bco", kCompares},
    {STAGE_EMBEDDING, "embedding", kTexts, kRetrieval, "embedding", kAlone, Baseline::kNone, HeadKind::kVector},
    {STAGE_RERANKER, "reranker", kRanked, kRetrieval, "reranker", kAlone, Baseline::kNone, HeadKind::kScore},
    {STAGE_CLASSIFICATION, "classification", kLabelled, kRetrieval, "classification", kAlone, Baseline::kNone,
     HeadKind::kScore},
};

}  // namespace

std::span<const StageFacts> AllStages() { return kStages; }

const StageFacts& FactsOf(Stage stage) {
  const auto* found = std::ranges::find(kStages, stage, &StageFacts::stage);
  TRIREME_CHECK(found != std::end(kStages)) << "stage " << stage << " has no line in stages/stages.cc";
  return *found;
}

std::string ObjectiveOf(const Config& config) {
  if (IsGenerative(config)) return "generative_reranker";
  return PolicyHasValues(config) ? "ppo" : FactsOf(config).objective;
}

bool DrawsDropout(const Config& config) {
  switch (FactsOf(config).method) {
    case kTokens:
    case kRetrieval:
      return true;
    case kPreference:
      return !config.preference().disable_dropout();
    case kPolicy:
    case kDistillation:
      return false;  // ratios of the policy to itself would not be 1
  }
  return true;
}

void CheckStage(const Config& config) {
  CheckPreference(config);
  CheckPolicy(config);
  CheckRetrieval(config);
}

}  // namespace trireme
