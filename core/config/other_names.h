// What other systems call a key, for people who come from them: ms-swift, LLaMA-Factory, Hugging Face's
// TrainingArguments, Megatron-LM. Only for error messages: no such name is ever read as a key.
#pragma once

#include <optional>
#include <string>

namespace trireme {

// "here it is optimizer.lr", or why nothing needs to be written; nothing where no system has the name. `name`
// is without a section; - and _ are the same.
std::optional<std::string> OtherNameHint(const std::string& name);

}  // namespace trireme
