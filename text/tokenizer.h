// Tokenizer: text to token ids and back, exactly as the Hugging Face tokenizer of a model's directory does
// it. Safe to use from many threads. Chats are chat_template.h.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/json.h"

struct TriremeTokenizer;

namespace trireme {

struct TokenSpan {
  uint32_t begin = 0, end = 0;  // bytes of the text
};

struct Encoded {
  std::vector<int32_t> ids;
  std::vector<TokenSpan> spans;  // of each id, if requested
};

struct EncodeOptions {
  bool add_special = false;  // add the tokenizer's special tokens, such as bos
  bool spans = false;
};

class Tokenizer {
 public:
  // Reads tokenizer.json and, if present, tokenizer_config.json and special_tokens_map.json.
  explicit Tokenizer(const std::string& directory);
  ~Tokenizer();
  Tokenizer(Tokenizer&&) noexcept;

  Encoded Encode(std::string_view text, const EncodeOptions& options = {}) const;
  std::string Decode(std::span<const int32_t> ids, bool skip_special = false) const;

  std::optional<int32_t> IdOf(std::string_view token) const;
  int64_t vocabulary() const;  // one more than the highest id
  // The end-of-text token; nothing if the directory does not define one.
  std::optional<int32_t> end_of_text() const;
  // bos_token, eos_token, … as templates see them.
  const Json& special_tokens() const { return special_tokens_; }
  const std::string& directory() const { return directory_; }

 private:
  std::string directory_;
  Json special_tokens_ = Json::object();
  TriremeTokenizer* handle_ = nullptr;
};

}  // namespace trireme
