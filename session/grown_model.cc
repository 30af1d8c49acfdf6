#include "session/grown_model.h"

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <vector>

#include "checkpoint/carried_files.h"
#include "checkpoint/grown_tokenizer.h"
#include "checkpoint/grown_weights.h"
#include "checkpoint/manifest.h"
#include "core/base/error.h"
#include "core/base/json.h"
#include "core/io/digest.h"
#include "models/families.h"
#include "session/derived_directory.h"
#include "session/file_names.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

constexpr char kModelConfig[] = "config.json";
constexpr char kGrowthFormat[] = "grown 2";  // a change of what is written changes this

std::vector<NewToken> NewTokensOf(const ModelConfig& model) {
  std::vector<NewToken> tokens;
  for (const std::string& text : model.new_tokens()) tokens.push_back({text, false});
  for (const std::string& text : model.new_special_tokens()) tokens.push_back({text, true});
  std::set<std::string> seen;
  for (const NewToken& token : tokens) {
    if (!seen.insert(token.text).second) {
      throw InputError("model.new_tokens and model.new_special_tokens have '", token.text, "' twice; keep one");
    }
  }
  return tokens;
}

// Where embedding and head are stored, under all names.
std::set<std::string> VocabularyTensors(const LayerGraph& graph) {
  std::set<std::string> names = {"lm_head.weight"};  // some files have it although it is tied
  const auto add = [&](const Layer& layer) {
    for (const char* role : {"embedding.weight", "logits.weight"}) {
      if (const auto name = layer.hf_names.find(role); name != layer.hf_names.end()) names.insert(name->second);
      if (const auto copies = layer.repeated.find(role); copies != layer.repeated.end()) {
        names.insert(copies->second.begin(), copies->second.end());
      }
    }
  };
  for (const Layer& layer : graph.layers) add(layer);
  for (const Layer& layer : graph.mtp) add(layer);
  return names;
}

int64_t RoundedUp(int64_t size, int64_t multiple) {
  return multiple == 0 ? size : (size + multiple - 1) / multiple * multiple;
}

// Everything that the result depends on, but for contents that change without their file's time.
std::string DigestOfGrowth(const fs::path& from, const std::vector<NewToken>& tokens, int64_t rows, bool weights) {
  Digest digest;
  digest.Add(kGrowthFormat).Add(fs::absolute(from).string()).Add(Concat(rows, weights ? " weights" : ""));
  for (const NewToken& token : tokens) digest.Add(Concat(token.special, " ", token.text));
  for (const char* file :
       {kModelConfig, "tokenizer.json", "tokenizer_config.json", "model.safetensors", "model.safetensors.index.json"}) {
    struct stat status{};
    if (stat((from / file).c_str(), &status) != 0) continue;
    digest.Add(Concat(file, " ", status.st_size, " ", status.st_mtim.tv_sec, " ", status.st_mtim.tv_nsec));
  }
  return digest.Hex();
}

struct Growing {
  fs::path from;
  const GrownTokenizer& tokenizer;
  Json config;  // config.json as it becomes
  RowGrowth rows;
  bool weights;
};

void MakeGrownModel(const Growing& growing, const fs::path& to) {
  CarryFiles(growing.from, to, {.config = growing.config.dump(2) + "\n", .value_head = true});
  growing.tokenizer.Write(to);
  if (growing.weights) WriteGrownWeights(growing.from, to, growing.rows);
}

}  // namespace

std::string GrownModel(const Config& config) {
  const ModelConfig& model = config.model();
  const std::vector<NewToken> tokens = NewTokensOf(model);
  if ((tokens.empty() && model.vocabulary_multiple() == 0) || model.path().empty()) return model.path();
  const fs::path from = model.path();
  if (IsCheckpoint(from)) {
    throw InputError("model.new_tokens: ", from.string(),
                     " is a run's checkpoint, whose vocabulary cannot grow; make a Hugging ",
                     "Face directory of it first: trireme convert --from ", from.string(), " --to DIR");
  }
  LayerGraph graph = BuildGraph(HfConfig::Read(from));
  TakeFileNames(graph, from);
  const GrownTokenizer tokenizer(from, tokens);
  const int64_t rows = VocabularyOf(graph);
  const int64_t new_rows = RoundedUp(std::max(rows, tokenizer.vocabulary()), model.vocabulary_multiple());
  if (!tokenizer.changed() && new_rows == rows) return model.path();
  Growing growing{from,
                  tokenizer,
                  ReadJsonFile((from / kModelConfig).string()),
                  {VocabularyTensors(graph), rows, new_rows},
                  model.init() == MODEL_INIT_WEIGHTS};
  growing.config["vocab_size"] = new_rows;
  return DerivedDirectory(config, DigestOfGrowth(from, tokens, new_rows, growing.weights),
                          Concat("a model with a vocabulary of ", new_rows, " instead of ", rows),
                          [&](const fs::path& folder) { MakeGrownModel(growing, folder); });
}

}  // namespace trireme
