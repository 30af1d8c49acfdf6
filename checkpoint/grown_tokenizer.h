// The tokenizer files of a model's directory with further tokens, as transformers' add_tokens and save_pretrained write
// them: ids after all others, in order. Changes JSON only; what the tokens do is up to the tokenizer.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "core/base/json.h"

namespace trireme {

struct NewToken {
  std::string text;
  bool special = false;  // decoding may leave it out
};

class GrownTokenizer {
 public:
  // Tokens that the tokenizer has already added are skipped; one that is only in its vocabulary keeps its id, and is
  // then found wherever it stands, as add_tokens does it. Refuses empty tokens, and a directory without tokenizer.json.
  GrownTokenizer(const std::filesystem::path& directory, const std::vector<NewToken>& tokens);

  bool changed() const { return !added_.empty(); }
  int64_t vocabulary() const { return vocabulary_; }  // one more than the highest id
  // tokenizer.json, and of tokenizer_config.json and added_tokens.json those that the directory has.
  void Write(const std::filesystem::path& directory) const;

 private:
  struct Added {
    int64_t id;
    NewToken token;
  };
  void Add(const NewToken& token);
  int64_t NextId() const;
  void WriteConfig(const std::filesystem::path& to) const;

  const std::filesystem::path directory_;
  nlohmann::json tokenizer_;  // tokenizer.json: its vocabulary has too many keys for one that keeps their order
  std::vector<Added> added_;
  int64_t vocabulary_ = 0;
};

}  // namespace trireme
