// JsonTokens: which tokens of a vocabulary may come next in a JSON object. What the tokens' bytes are comes from the
// caller; the grammar is json_grammar.h. One for all rows of an engine; on one thread.
#pragma once

#include <cstdint>
#include <list>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "generation/json_grammar.h"

namespace trireme {

// By token id; nothing: the token is not text (special, or unknown), and never part of JSON.
using TokenBytes = std::vector<std::optional<std::string>>;

class JsonTokens {
 public:
  // An input error if some object could not be written with these tokens.
  explicit JsonTokens(TokenBytes tokens);

  // The logits of tokens that may not come next become -infinity: never all of them, unless the object is complete.
  // There may be more logits than tokens.
  void Restrict(std::span<float> logits, const JsonGrammar& state) const;
  // Takes the bytes of a token that may come next.
  void Take(JsonGrammar& state, int64_t token) const;

 private:
  using Allowed = std::vector<uint8_t>;  // by token: 1 or 0
  void CheckBytes();
  Allowed Find(const JsonGrammar& state) const;
  const Allowed& AllowedIn(const JsonGrammar& state) const;

  const TokenBytes tokens_;
  // In the order of their bytes, so that tokens that begin alike are neighbours and their begin is looked at once.
  struct Sorted {
    int32_t token = 0;
    size_t common = 0;  // bytes shared with the one before
  };
  std::vector<Sorted> sorted_;
  bool may_end_in_character_ = true;  // whatever byte is missing then has a token
  // Of recent states, the latest first: most tokens of a string leave its state as it is.
  mutable std::list<std::pair<std::string, Allowed>> recent_;
};

}  // namespace trireme
