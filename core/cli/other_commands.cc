#include "core/cli/other_commands.h"

#include "core/base/error.h"
#include "core/config/schema.h"

namespace trireme {
namespace {

struct OtherCommand {
  const char *theirs, *instead;
};

constexpr OtherCommand kCommands[] = {
    {"rlhf", "write stage: dpo, or another of its family, into RUN.yaml and start trireme train RUN.yaml"},
    {"pretrain", "write stage: pt into RUN.yaml and start trireme train RUN.yaml"},
    {"finetune", "write stage: sft into RUN.yaml and start trireme train RUN.yaml"},
    {"infer", "use trireme generate --model DIR"},
    {"chat", "use trireme generate --model DIR, which chats"},
    {"deploy", "use trireme serve --model DIR"},
    {"api", "use trireme serve --model DIR"},
    {"app", "use trireme serve --model DIR, which has a chat at /"},
    {"webchat", "use trireme serve --model DIR, which has a chat at /"},
    {"web-ui", "use trireme board OUTPUT"},
    {"webui", "use trireme board OUTPUT"},
    {"eval", "use trireme evaluate RUN.yaml"},
    {"export", "use trireme merge --model DIR --adapters DIR --to DIR"},
    {"merge-lora", "use trireme merge --model DIR --adapters DIR --to DIR"},
};

}  // namespace

std::optional<std::string> OtherCommandHint(const std::string& name) {
  const auto* stages = Config::descriptor()->FindFieldByName("stage")->enum_type();
  if (FindSpelling(*stages, name) != nullptr) {
    return Concat("write stage: ", name, " into RUN.yaml and start trireme train RUN.yaml");
  }
  for (const OtherCommand& command : kCommands) {
    if (name == command.theirs) return command.instead;
  }
  return std::nullopt;
}

}  // namespace trireme
