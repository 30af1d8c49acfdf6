// The bytes that each token of a tokenizer.json stands for, which texts of single tokens do not show: a token may be
// part of a character. For decoders of bytes (GPT-2's alphabet) and of words with a mark for blanks and bytes as a
// fallback (SentencePiece's).
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace trireme {

// By token id; nothing: a special token, or no token. directory: has a tokenizer.json. An input error if its decoder is
// of another kind.
std::vector<std::optional<std::string>> BytesOfTokens(const std::string& directory);

}  // namespace trireme
