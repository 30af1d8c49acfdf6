// What other systems call a key, for users who come from them: ms-swift, LLaMA-Factory, TRL, Hugging Face's
// TrainingArguments, Megatron-LM, verl. Only for error messages: none of these names is ever accepted as a key.
#pragma once

#include <optional>
#include <string>

namespace trireme {

// "in Trireme it is optimizer.lr", or why no key is needed; nothing if no system has the name. `name` comes
// without its section; - and _ are equivalent. Of several keys those in `section` ("rl."), where it has one.
std::optional<std::string> OtherNameHint(const std::string& name, const std::string& section = "");

}  // namespace trireme
