#include "train/states/pooling_files.h"

#include "core/base/json.h"
#include "stages/retrieval_check.h"

namespace trireme {
namespace {

constexpr char kPooling[] = "1_Pooling", kNormalize[] = "2_Normalize";

Json Module(int64_t index, const std::string& path, const std::string& type) {
  return {{"idx", index},
          {"name", std::to_string(index)},
          {"path", path},
          {"type", "sentence_transformers.models." + type}};
}

Json PoolingOf(const RetrievalConfig& keys, int64_t hidden) {
  return {{"word_embedding_dimension", hidden},
          {"pooling_mode_cls_token", keys.pooling() == POOLING_FIRST},
          {"pooling_mode_mean_tokens", keys.pooling() == POOLING_MEAN},
          {"pooling_mode_max_tokens", false},
          {"pooling_mode_mean_sqrt_len_tokens", false},
          {"pooling_mode_weightedmean_tokens", false},
          {"pooling_mode_lasttoken", keys.pooling() == POOLING_LAST},
          {"include_prompt", true}};
}

std::string FileText(const Json& json) { return json.dump(2) + "\n"; }

}  // namespace

std::map<std::string, std::string> PoolingFiles(const Config& config, int64_t hidden) {
  if (HeadOf(config) != HeadKind::kVector) return {};
  const RetrievalConfig& keys = config.retrieval();
  Json modules = {Module(0, "", "Transformer"), Module(1, kPooling, "Pooling")};
  if (keys.normalize()) modules.push_back(Module(2, kNormalize, "Normalize"));
  std::map<std::string, std::string> files = {
      {"modules.json", FileText(modules)},
      {"sentence_bert_config.json",
       FileText({{"max_seq_length", config.data().max_length()}, {"do_lower_case", false}})},
      {"config_sentence_transformers.json",
       FileText({{"prompts", {{"query", keys.query_prompt()}, {"document", keys.document_prompt()}}},
                 {"default_prompt_name", nullptr},
                 {"similarity_fn_name", "cosine"}})},
      {std::string(kPooling) + "/config.json", FileText(PoolingOf(keys, hidden))}};
  if (keys.normalize()) files[std::string(kNormalize) + "/config.json"] = "{}\n";
  return files;
}

}  // namespace trireme
