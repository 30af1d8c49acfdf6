// StreamDecoder: tokens in one by one, text out as soon as it is final. Never returns a partial character,
// and everything returned, joined, equals decoding all tokens at once.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "text/tokenizer.h"

namespace trireme {

class StreamDecoder {
 public:
  explicit StreamDecoder(const Tokenizer& tokenizer, bool skip_special = true)
      : tokenizer_(tokenizer), skip_special_(skip_special) {}

  // The text that this token completes; empty if more tokens are needed.
  std::string Add(int32_t id);
  // What is left at the end, with U+FFFD for a character that stayed incomplete.
  std::string Finish();

 private:
  std::string NewText(bool last);

  const Tokenizer& tokenizer_;
  const bool skip_special_;
  // Only the last few tokens are decoded again: new ones, after a few old ones that are kept because
  // a decoder may treat the first token of a text differently.
  std::vector<int32_t> ids_;
  size_t old_ = 0;    // ids_ whose text was fully returned
  size_t given_ = 0;  // bytes of the text of ids_ already returned
};

}  // namespace trireme
