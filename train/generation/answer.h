// Answer: what a model has written for one prompt so far, as tokens and as text, and when it ends: at an end
// token, at a stop word, at the limit. Knows no model; no torch.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "train/tokenizer/stream_decoder.h"

namespace trireme {

struct AnswerRules {
  std::set<int64_t> ends;          // tokens that end an answer
  std::vector<std::string> stops;  // words that end it; they are no part of its text; none is empty
};

class Answer {
 public:
  // Of at most `most` tokens. `rules` and `tokenizer` outlive it. Without a tokenizer there is no text, and
  // stop words are not looked for.
  Answer(const AnswerRules& rules, int64_t most, const Tokenizer* tokenizer);

  // The next token; whether the answer goes on.
  bool Take(int64_t token);

  const std::vector<int64_t>& ids() const { return ids_; }  // all that were taken, the end token among them
  bool ended() const { return !reason_.empty(); }
  // "stop" at an end token or a stop word, "length" at the limit.
  const std::string& reason() const { return reason_; }
  // So far. While it goes on, the last of it may turn out to be the begin of a stop word.
  const std::string& text() const { return text_; }
  // What is certain and was not given before: for printing as it comes.
  std::string NewText();

 private:
  void AddText(const std::string& fresh);
  size_t Certain() const;

  const AnswerRules& rules_;
  const int64_t most_;
  std::optional<StreamDecoder> decoder_;
  std::vector<int64_t> ids_;
  std::string text_, reason_;
  size_t given_ = 0;  // bytes of the text
};

}  // namespace trireme
