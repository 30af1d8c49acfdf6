#include "launch/generate_chat.h"

#include <unistd.h>

#include <algorithm>
#include <iostream>
#include <iterator>

#include "core/base/error.h"
#include "core/base/text.h"
#include "launch/generate_tools.h"
#include "train/generation/prompts.h"

namespace trireme {
namespace {

constexpr const char* kHelp = "/new starts a new conversation, /quit or ctrl-D ends\n";
constexpr const char* kToolHelp =
    "/tool RESULT answers a call of the model, /new starts a new conversation, /quit or ctrl-D ends\n";
constexpr const char* kToolLine = "/tool ";

bool OnTerminal() { return isatty(STDIN_FILENO) == 1; }

std::string OfRankZero(Job& job, const std::string& text) { return job.GatherStrings(text)[0]; }

// Nothing at the end of the input.
std::optional<std::string> NextLine(Job& job) {
  std::string mine;
  if (job.rank() == 0) {
    if (OnTerminal()) std::cout << "> " << std::flush;
    std::string line;
    if (std::getline(std::cin, line)) mine = "+" + line;  // an empty line is not the end
    if (mine.empty() && OnTerminal()) std::cout << "\n";
  }
  const std::string shared = OfRankZero(job, mine);
  return shared.empty() ? std::nullopt : std::optional(shared.substr(1));
}

Json FirstMessages(const std::string& system) {
  Json messages = Json::array();
  if (!system.empty()) messages.push_back({{"role", "system"}, {"content", system}});
  return messages;
}

// Calls of the model at the end of the conversation that have no result yet.
int64_t OpenCalls(const Json& messages) {
  int64_t results = 0;
  for (auto message = messages.rbegin(); message != messages.rend(); ++message) {
    if ((*message)["role"] != "tool") return message->contains("tool_calls") ? std::ssize((*message)["tool_calls"]) - results : 0;
    ++results;
  }
  return 0;
}

// Whether it is the model's turn now.
bool AddLine(const std::string& line, Json& messages, bool speaks) {
  if (!line.starts_with(kToolLine)) {
    messages.push_back({{"role", "user"}, {"content", line}});
    return true;
  }
  const int64_t open = OpenCalls(messages);
  if (open > 0) messages.push_back({{"role", "tool"}, {"content", line.substr(std::string(kToolLine).size())}});
  if (speaks && open == 0) std::cerr << "no call of a tool is open; write a line for the model, or /quit\n";
  if (speaks && open > 1) std::cerr << "the model made more calls: " << Counted(open - 1, "result") << " to go\n";
  return open == 1;
}

std::string WriteAnswer(Generator& generator, const ChatSettings& settings, const Tokens& prompt,
                        bool speaks) {
  const int64_t room = settings.positions ? *settings.positions - std::ssize(prompt) : settings.most;
  Answer answer(settings.rules, std::min(settings.most, room), &settings.tokenizer);
  generator.Run({prompt}, settings.options, [&](size_t, int64_t token) {
    const bool goes_on = answer.Take(token);
    if (speaks) std::cout << answer.NewText() << std::flush;
    return goes_on;
  });
  if (speaks) std::cout << "\n" << std::flush;
  return answer.text();
}

}  // namespace

void Chat(Generator& generator, const ChatSettings& settings, Job& job) {
  const bool speaks = job.rank() == 0;
  if (speaks && OnTerminal()) std::cerr << (settings.tools.is_null() ? kHelp : kToolHelp);
  Json messages = FirstMessages(settings.system);
  while (const std::optional<std::string> line = NextLine(job)) {
    if (*line == "/quit") return;
    if (*line == "/new") messages = FirstMessages(settings.system);
    if (*line == "/new" || IsBlank(*line) || !AddLine(*line, messages, speaks)) continue;
    const Tokens prompt = ChatPrompt(settings.tokenizer, settings.chat, messages,
                                     {.tools = settings.tools, .variables = settings.variables});
    if (settings.positions && std::ssize(prompt) >= *settings.positions) {
      messages.erase(messages.size() - 1);
      if (speaks) {
        std::cerr << "the conversation has " << prompt.size() << " tokens; the model accepts at most "
                  << *settings.positions << "; write less, or /new to start over\n";
      }
      continue;
    }
    messages.push_back(AssistantMessage(settings.tool_form, WriteAnswer(generator, settings, prompt, speaks)));
  }
}

StandardInput ReadStandardInput(Job& job) {
  std::string mine;
  if (job.rank() == 0 && !OnTerminal()) {
    mine = "+" + std::string(std::istreambuf_iterator<char>(std::cin), std::istreambuf_iterator<char>());
  }
  std::string shared = OfRankZero(job, mine);
  if (shared.empty()) return {.terminal = true};
  if (shared.ends_with("\n")) shared.pop_back();
  return {.text = shared.substr(1)};
}

}  // namespace trireme
