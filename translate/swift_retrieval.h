// ms-swift's task_type: stages of embedding models, rerankers and classifiers, and their settings in the environment.
#pragma once

#include <string>
#include <vector>

#include "translate/given.h"
#include "translate/rules.h"
#include "translate/translation.h"

namespace trireme {

bool IsRetrieval(const std::string& stage);
// Empty: a causal language model.
std::string RetrievalStage(const Given& given);

// Of task_type, num_labels and problem_type; what loss_type means then is in SetRetrievalLoss.
std::vector<RuleRow> RetrievalRules();
void SetRetrievalLoss(const Setting& setting, const std::string& stage, Translation& result);

// What depends on the task and on the environment: INFONCE_TEMPERATURE and its like, with ms-swift's defaults.
void FinishRetrieval(const Given& given, const std::string& stage, Translation& result);

}  // namespace trireme
