#include "text/tokenizer.h"

#include <filesystem>
#include <utility>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/process.h"
#include "text/library.h"

namespace trireme {
namespace {

// A special token is a string, or an object with its content; null means none.
void TakeSpecialTokens(const std::filesystem::path& path, Json& tokens) {
  if (!PathExists(path)) return;
  const Json config = ReadJsonFile(path.string());
  for (const char* name :
       {"bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"}) {
    const auto found = config.find(name);
    if (found == config.end() || tokens.contains(name)) continue;
    if (found->is_string()) tokens[name] = *found;
    if (!found->is_object() || !found->contains("content")) continue;
    if ((*found)["content"].is_string()) tokens[name] = (*found)["content"];
  }
}

// Tokenizers of older models have files of their own kinds, which transformers converts. Only tokenizer.json is
// written: saving all its files would follow the links of a hub's cache and change what they lead to.
[[noreturn]] void RefuseWithoutJson(const std::filesystem::path& folder) {
  for (const char* file : {"tokenizer.model", "vocab.json"}) {
    if (!PathExists(folder / file)) continue;
    throw InputError(
        folder.string(), ": has ", file,
        " and no tokenizer.json; convert it once, with transformers, sentencepiece and ",
        "protobuf installed: python3 -c 'import sys, transformers as t; t.AutoTokenizer.from_pretrained(sys.argv[1])",
        ".backend_tokenizer.save(sys.argv[1] + \"/tokenizer.json\")' ", ShellWord(folder.string()));
  }
  throw InputError(folder.string(), ": has no tokenizer.json; wanted the directory of a model with its tokenizer");
}

}  // namespace

Tokenizer::Tokenizer(const std::string& directory) : directory_(directory) {
  const std::filesystem::path folder = directory;
  const std::string path = (folder / "tokenizer.json").string();
  if (!PathExists(path)) RefuseWithoutJson(folder);
  const std::string json = ReadTextFile(path);
  ThrowLibraryError(trireme_tokenizer_open(json.data(), json.size(), &handle_), path + " is not a tokenizer: ");
  TakeSpecialTokens(folder / "tokenizer_config.json", special_tokens_);
  TakeSpecialTokens(folder / "special_tokens_map.json", special_tokens_);
}

Tokenizer::~Tokenizer() {
  if (handle_ != nullptr) trireme_tokenizer_close(handle_);
}

Tokenizer::Tokenizer(Tokenizer&& other) noexcept
    : directory_(std::move(other.directory_)),
      special_tokens_(std::move(other.special_tokens_)),
      handle_(std::exchange(other.handle_, nullptr)) {}

Encoded Tokenizer::Encode(std::string_view text, const EncodeOptions& options) const {
  TriremeEncoding raw{};
  ThrowLibraryError(
      trireme_tokenizer_encode(handle_, text.data(), text.size(), options.add_special, options.spans, &raw),
      Concat("text '", text.substr(0, 40), "' cannot be tokenized: "));
  Encoded encoded;
  encoded.ids.assign(raw.ids, raw.ids + raw.count);
  if (options.spans) {
    encoded.spans.reserve(raw.count);
    for (size_t i = 0; i < raw.count; ++i) encoded.spans.push_back({raw.offsets[2 * i], raw.offsets[2 * i + 1]});
  }
  trireme_encoding_free(&raw);
  return encoded;
}

std::string Tokenizer::Decode(std::span<const int32_t> ids, bool skip_special) const {
  TriremeText raw{};
  ThrowLibraryError(
      trireme_tokenizer_decode(handle_, reinterpret_cast<const uint32_t*>(ids.data()), ids.size(), skip_special, &raw),
      "tokens cannot be decoded: ");
  return TakeText(raw);
}

std::optional<int32_t> Tokenizer::IdOf(std::string_view token) const {
  const int64_t id = trireme_tokenizer_id(handle_, token.data(), token.size());
  return id < 0 ? std::nullopt : std::optional(static_cast<int32_t>(id));
}

int64_t Tokenizer::vocabulary() const { return trireme_tokenizer_vocabulary(handle_); }

std::optional<int32_t> Tokenizer::end_of_text() const {
  const auto found = special_tokens_.find("eos_token");
  return found == special_tokens_.end() ? std::nullopt : IdOf(found->get<std::string>());
}

}  // namespace trireme
