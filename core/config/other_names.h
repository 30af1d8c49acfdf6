// What other systems call a key, for users who come from them: ms-swift, LLaMA-Factory, TRL, Hugging Face's
// TrainingArguments, Megatron-LM, MindSpeed, verl. For error messages and for `trireme translate`: none of these names
// is ever accepted as a key.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

struct OtherName {
  std::string_view theirs;  // one name, or several with blanks between them
  std::string_view ours;    // empty if no key is needed
  std::string_view note;
  bool missing = false;  // this program has no such thing
};

// All rows of the name, - and _ being equivalent.
std::vector<OtherName> FindOtherNames(const std::string& name);

// The keys here whose name, without the section, and meaning are the same there: data.max_length for max_length.
std::vector<std::string> SameNames(const std::string& name);

// "in Trireme it is optimizer.lr", or why no key is needed; nothing if no system has the name. `name` comes
// without its section; - and _ are equivalent. Of several keys those in `section` ("rl."), where it has one.
std::optional<std::string> OtherNameHint(const std::string& name, const std::string& section = "");

}  // namespace trireme
