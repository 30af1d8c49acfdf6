#include "translate/swift_retrieval.h"

#include "core/base/error.h"

namespace trireme {
namespace {

struct EnvironmentKey {
  const char *variable, *key;
  const char* otherwise;  // ms-swift's default where it is not the one here
};

constexpr EnvironmentKey kEmbedding[] = {
    {"INFONCE_TEMPERATURE", "retrieval.temperature", "0.1"},
    {"INFONCE_USE_BATCH", "retrieval.in_batch", ""},
    {"INFONCE_HARD_NEGATIVES", "retrieval.hard_negatives", ""},
    {"INFONCE_MASK_FAKE_NEGATIVE", "retrieval.mask_false_negatives", ""},
    {"INFONCE_FAKE_NEG_MARGIN", "retrieval.false_negative_margin", ""},
    {"INFONCE_INCLUDE_QQ", "retrieval.query_query", ""},
    {"INFONCE_INCLUDE_DD", "retrieval.document_document", ""},
};

constexpr EnvironmentKey kReranker[] = {
    {"LISTWISE_RERANKER_TEMPERATURE", "retrieval.temperature", ""},
    {"MAX_NEGATIVE_SAMPLES", "retrieval.hard_negatives", "7"},
    {"GENERATIVE_RERANKER_POSITIVE_TOKEN", "retrieval.positive_token", ""},
    {"GENERATIVE_RERANKER_NEGATIVE_TOKEN", "retrieval.negative_token", ""},
};

template <size_t kCount>
void SetByEnvironment(const EnvironmentKey (&keys)[kCount], const Given& given, Translation& result) {
  for (const auto& [variable, key, otherwise] : keys) {
    const auto found = given.environment.find(variable);
    if (found != given.environment.end()) {
      result.Set(key, found->second, Concat(variable, "=", found->second));
    } else if (*otherwise != '\0') {
      result.Default(key, otherwise, "ms-swift");
    }
  }
}

}  // namespace

bool IsRetrieval(const std::string& stage) {
  return stage == "embedding" || stage == "reranker" || stage == "classification";
}

std::string RetrievalStage(const Given& given) {
  const std::string task = given.Value("task_type", "causal_lm");
  if (task == "seq_cls") return "classification";
  if (task == "generative_reranker") return "reranker";
  return task == "embedding" || task == "reranker" ? task : "";
}

std::vector<RuleRow> RetrievalRules() {
  return {
      {"task_type",
       [](const Setting& setting, Translation& result) {
         Only({"causal_lm", "seq_cls", "embedding", "reranker", "generative_reranker"},
              "stages embedding, reranker and classification are all")(setting, result);
         if (setting.value() == "generative_reranker")
           result.Set("retrieval.generative", std::string("true"), setting.origin);
       }},
      {"num_labels", To("retrieval.labels")},
      {"problem_type", Map("retrieval.problem", {{"single_label_classification", "single_label"},
                                                 {"multi_label_classification", "multi_label"},
                                                 {"regression", "regression"}})},
      {"label_names", NotNeeded("records have their labels under the names that the stage reads")},
  };
}

void SetRetrievalLoss(const Setting& setting, const std::string& stage, Translation& result) {
  if (stage == "embedding") {
    Map("retrieval.loss", {{"infonce", "infonce"},
                           {"cosine_similarity", "cosine_similarity"},
                           {"contrastive", "contrastive"},
                           {"online_contrastive", "online_contrastive"}})(setting, result);
  } else if (stage == "reranker") {
    Map("retrieval.ranking", {{"pointwise_reranker", "pointwise"}, {"listwise_reranker", "listwise"}})(setting, result);
  } else {
    result.Refuse(setting.origin, "a classifier's loss follows from retrieval.problem");
  }
}

void FinishRetrieval(const Given& given, const std::string& stage, Translation& result) {
  if (stage == "embedding") SetByEnvironment(kEmbedding, given, result);
  if (stage == "reranker") SetByEnvironment(kReranker, given, result);
  if (!IsRetrieval(stage)) return;
  if (stage == "embedding" && !given.Find("loss_type"))
    result.Refuse("task_type", "an embedding model without a loss_type; name one, such as infonce");
  if (result.value("model.path").find("VL") != std::string::npos)  // others are as often given texts
    result.Refuse("task_type", "embeddings, scores and labels of images; these stages read text alone");
  if (stage == "embedding" && result.value("retrieval.loss") == "infonce") {
    result.Warn("loss_type",
                "negatives are those of a forward pass on all ranks there, those of the whole global batch here");
  }
  if (stage == "classification" && given.IsOn("use_chat_template", true))
    result.Warn("use_chat_template", "a text is a user's message there, and taken as it is here; give messages");
  if (stage == "classification" && given.Value("num_labels", "") == "1" && !given.Find("problem_type"))
    result.Default("retrieval.problem", "regression", "ms-swift");
}

}  // namespace trireme
