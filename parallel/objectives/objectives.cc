// The list of objectives. A new one is a file with its function and a line here: name, and the function that makes it.
#include "parallel/objectives/objectives.h"

#include "core/base/error.h"
#include "core/base/text.h"

// clang-format off
#define TRIREME_OBJECTIVES(OBJECTIVE)           \
  OBJECTIVE("cross_entropy", MakeCrossEntropy)  \
  OBJECTIVE("log_probs", MakeWeightedLogProbs)  \
  OBJECTIVE("dpo", MakeDpo)                     \
  OBJECTIVE("kto", MakeKto)                     \
  OBJECTIVE("bco", MakeBco)                     \
  OBJECTIVE("orpo", MakeOrpo)                   \
  OBJECTIVE("simpo", MakeSimPo)                 \
  OBJECTIVE("cpo", MakeCpo)                     \
  OBJECTIVE("rm", MakeRewardModel)              \
  OBJECTIVE("grpo", MakeGrpo)                   \
  OBJECTIVE("rloo", MakeRloo)                   \
  OBJECTIVE("reinforce_plus_plus", MakeReinforce) \
  OBJECTIVE("ppo_policy", MakePpoPolicy)        \
  OBJECTIVE("gkd", MakeDistillation)            \
  OBJECTIVE("value", MakeValueLoss)             \
  OBJECTIVE("ppo", MakePpo)                     \
  OBJECTIVE("embedding", MakeEmbedding)         \
  OBJECTIVE("reranker", MakeReranker)           \
  OBJECTIVE("generative_reranker", MakeGenerativeReranker) \
  OBJECTIVE("classification", MakeClassification)
// clang-format on

namespace trireme {

#define DECLARE(name, make) std::unique_ptr<Objective> make(const ObjectiveOptions& options);
TRIREME_OBJECTIVES(DECLARE)
#undef DECLARE

std::vector<std::string> ObjectiveNames() {
#define NAME(name, make) name,
  return {TRIREME_OBJECTIVES(NAME)};
#undef NAME
}

std::unique_ptr<Objective> MakeObjective(const std::string& name, const ObjectiveOptions& options) {
#define MAKE(listed, make) \
  if (name == listed) return make(options);
  TRIREME_OBJECTIVES(MAKE)
#undef MAKE
  throw InputError("there is no objective '", name, "'; wanted ", Join(ObjectiveNames()));
}

}  // namespace trireme
