#include "checkpoint/grown_tokenizer.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/io/atomic_file.h"

namespace trireme {
namespace {

constexpr char kTokenizerFile[] = "tokenizer.json";
constexpr char kTokenizerConfigFile[] = "tokenizer_config.json";
constexpr char kAddedTokensFile[] = "added_tokens.json";

// The id of a token in the model's own vocabulary: an object, or of Unigram a list of pairs.
std::optional<int64_t> OwnId(const nlohmann::json& vocabulary, const std::string& text) {
  if (vocabulary.is_object()) {
    const auto found = vocabulary.find(text);
    return found == vocabulary.end() ? std::nullopt : std::optional(found->get<int64_t>());
  }
  for (size_t i = 0; i < vocabulary.size(); ++i) {
    if (vocabulary[i].at(0) == text) return static_cast<int64_t>(i);
  }
  return std::nullopt;
}

template <typename AnyJson>
AnyJson TokenJson(const NewToken& token) {
  return {{"content", token.text}, {"lstrip", false},      {"normalized", !token.special},
          {"rstrip", false},       {"single_word", false}, {"special", token.special}};
}

}  // namespace

GrownTokenizer::GrownTokenizer(const std::filesystem::path& directory, const std::vector<NewToken>& tokens)
    : directory_(directory) {
  const std::filesystem::path file = directory / kTokenizerFile;
  if (!PathExists(file)) {
    if (tokens.empty()) return;
    throw InputError("model.new_tokens: ", directory.string(), " has no ", kTokenizerFile, " to add them to");
  }
  tokenizer_ = ParseSortedJson(ReadTextFile(file.string()), file.string());
  const bool known = tokenizer_.is_object() && tokenizer_.contains("model") && tokenizer_["model"].contains("vocab");
  if (!known) throw InputError(file.string(), ": has no model with a vocab, so that no token can be added");
  if (!tokenizer_.contains("added_tokens")) tokenizer_["added_tokens"] = nlohmann::json::array();
  for (const NewToken& token : tokens) Add(token);
  vocabulary_ = NextId();
}

int64_t GrownTokenizer::NextId() const {
  int64_t next = static_cast<int64_t>(tokenizer_["model"]["vocab"].size());
  for (const nlohmann::json& token : tokenizer_["added_tokens"])
    next = std::max(next, token.at("id").get<int64_t>() + 1);
  return next;
}

void GrownTokenizer::Add(const NewToken& token) {
  if (token.text.empty()) throw InputError("model.new_tokens has an empty token; remove it");
  nlohmann::json& all = tokenizer_["added_tokens"];
  const bool is_there =
      std::ranges::any_of(all, [&](const nlohmann::json& one) { return one.at("content") == token.text; });
  if (is_there) return;
  const int64_t id = OwnId(tokenizer_["model"]["vocab"], token.text).value_or(NextId());
  auto entry = TokenJson<nlohmann::json>(token);
  entry["id"] = id;
  all.push_back(std::move(entry));
  std::ranges::sort(all.get_ref<nlohmann::json::array_t&>(), {},
                    [](const nlohmann::json& one) { return one.at("id").get<int64_t>(); });
  added_.push_back({id, token});
}

void GrownTokenizer::Write(const std::filesystem::path& directory) const {
  if (!changed()) return;
  WriteAtomicFile(directory / kTokenizerFile, tokenizer_.dump(2) + "\n");
  if (PathExists(directory_ / kTokenizerConfigFile)) WriteConfig(directory / kTokenizerConfigFile);
  if (!PathExists(directory_ / kAddedTokensFile)) return;
  Json ids = ReadJsonFile((directory_ / kAddedTokensFile).string());
  for (const auto& [id, token] : added_) ids[token.text] = id;
  WriteAtomicFile(directory / kAddedTokensFile, ids.dump(2) + "\n");
}

void GrownTokenizer::WriteConfig(const std::filesystem::path& to) const {
  Json config = ReadJsonFile((directory_ / kTokenizerConfigFile).string());
  for (const auto& [id, token] : added_) {
    if (config.contains("added_tokens_decoder"))
      config["added_tokens_decoder"][std::to_string(id)] = TokenJson<Json>(token);
    if (!token.special) continue;
    // transformers 5 calls them extra_special_tokens, and reads the older name, too.
    const char* key = config.contains("extra_special_tokens") && config["extra_special_tokens"].is_array()
                          ? "extra_special_tokens"
                          : "additional_special_tokens";
    if (!config.contains(key) || config[key].is_null()) config[key] = Json::array();
    if (config[key].is_array()) config[key].push_back(token.text);
  }
  WriteAtomicFile(to, config.dump(2) + "\n");
}

}  // namespace trireme
