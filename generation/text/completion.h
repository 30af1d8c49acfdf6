// Completion: what a model has generated for one prompt so far, as tokens and as text, and when it ends: at an
// end token, at a stop string, at the limit. Knows no model; no torch.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "text/stream_decoder.h"

namespace trireme {

struct CompletionRules {
  std::set<int64_t> ends;          // tokens that end a completion
  std::vector<std::string> stops;  // stop strings, not part of its text; none is empty
  bool keep_special = false;       // special tokens are part of its text
};

class Completion {
 public:
  // Of at most `most` tokens. `rules` and `tokenizer` outlive it. Without a tokenizer there is no text, and
  // stop strings are not checked.
  Completion(const CompletionRules& rules, int64_t most, const Tokenizer* tokenizer);

  // Adds the next token; returns whether it continues.
  bool Take(int64_t token);
  // It is complete for a reason that the caller knows.
  void Stop() { reason_ = "stop"; }

  const std::vector<int64_t>& ids() const { return ids_; }  // all tokens, including the end token
  bool ended() const { return !reason_.empty(); }
  // "stop" at an end token or a stop string, "length" at the limit.
  const std::string& reason() const { return reason_; }
  // The text so far. While it continues, its end may turn out to be the start of a stop string.
  const std::string& text() const { return text_; }
  // Text that is final and was not returned before, for streaming.
  std::string NewText();

 private:
  void AddText(const std::string& fresh);
  size_t Certain() const;

  const CompletionRules& rules_;
  const int64_t most_;
  std::optional<StreamDecoder> decoder_;
  std::vector<int64_t> ids_;
  std::string text_, reason_;
  size_t given_ = 0;  // bytes of the text already returned
};

}  // namespace trireme
