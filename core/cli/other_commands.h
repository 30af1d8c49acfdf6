// What other systems call a command, for users who come from them: ms-swift, LLaMA-Factory. Only for error messages.
#pragma once

#include <optional>
#include <string>

namespace trireme {

// "write stage: sft into RUN.yaml and start trireme train RUN.yaml"; nothing if no system has the command.
std::optional<std::string> OtherCommandHint(const std::string& name);

}  // namespace trireme
