#include "train/rollouts/environment.h"

#include "core/base/error.h"
#include "data/record_fields.h"
#include "train/rollouts/rewards.h"

namespace trireme {
namespace {

constexpr char kEnvironmentProgram[] = "program:";

std::string EnvironmentCommand(const std::string& name) {
  const std::string command = name.starts_with(kEnvironmentProgram) ? name.substr(sizeof kEnvironmentProgram - 1) : "";
  if (command.empty()) throw InputError("rl.environment: ", name, "; wanted program:COMMAND");
  return command;
}

const Tokenizer& TokenizerOf(const Config& config, const PromptSet& prompts) {
  if (prompts.tokenizer() != nullptr) return *prompts.tokenizer();
  throw InputError("rl.environment: ", config.model().path(), " has no tokenizer.json, and its messages are text");
}

Json MessageIn(const std::string& line, const std::string& who) {
  Json answer = TryParseJson(line);
  if (answer.is_null()) return answer;
  if (answer.is_object() && answer.contains("content") && answer.at("content").is_string()) {
    if (!answer.contains("role")) answer["role"] = "user";
    if (answer.at("role").is_string() && answer.at("role") != "assistant") return answer;
  }
  throw RuntimeError(who, " answered '", line.substr(0, 80),
                     "'; wanted null for the end, or a message such as {\"role\": \"user\", \"content\": \"...\"}");
}

}  // namespace

Environment::Environment(const Config& config, const PromptSet& prompts)
    : prompts_(prompts),
      chat_(ChatTemplate::Of(TokenizerOf(config, prompts), config.data().template_(), TemplateValuesOf(config.data()))),
      program_(EnvironmentCommand(config.rl().environment()), "the environment " + LogNameOf(config.rl().environment()),
               config.rl().reward_seconds()) {
  for (int64_t i = 0; i < prompts.size(); ++i) {
    if (prompts.at(i).asked.is_array()) continue;
    throw InputError("rl.environment: prompt ", i + 1, " of ", prompts.keys().files,
                     " has no messages to continue; wanted messages");
  }
}

Json Environment::Ask(std::span<const OpenTurn> turns) {
  std::vector<std::string> lines;
  for (const OpenTurn& turn : turns) {
    lines.push_back(JsonLine({{"messages", turn.messages},
                              {"completion_ids", turn.rollout->completion_ids},
                              {"columns", turn.prompt->record}}));
  }
  Json answers = Json::array();
  for (const std::string& line : program_.Ask(lines)) answers.push_back(MessageIn(line, program_.who()));
  return answers;
}

std::vector<int64_t> Environment::TokensOf(const OpenTurn& turn, const Json& message) const {
  Json messages = turn.messages;
  messages.push_back(message);
  RenderOptions options = turn.prompt->rendering;
  const std::string before = chat_.RenderAll(turn.messages, options);
  options.add_generation_prompt = true;
  const std::string text = chat_.RenderAll(messages, options);
  const size_t found = before.rfind(turn.written), end = found + turn.written.size();
  if (found == std::string::npos || text.compare(0, end, before, 0, end) != 0) {
    throw RuntimeError(
        "the chat template changes what the model wrote, '", turn.written.substr(0, 80),
        "', so that its tokens cannot be continued; wanted one that keeps turns as they are (data.template)");
  }
  const std::vector<int32_t> ids = prompts_.tokenizer()->Encode(text.substr(end)).ids;
  return {ids.begin(), ids.end()};
}

}  // namespace trireme
