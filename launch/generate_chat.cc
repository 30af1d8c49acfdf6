#include "launch/generate_chat.h"

#include <unistd.h>

#include <algorithm>
#include <iostream>
#include <iterator>

#include "core/base/error.h"
#include "core/base/text.h"
#include "train/generation/prompts.h"

namespace trireme {
namespace {

constexpr const char* kHelp = "/new starts a new conversation, /quit or ctrl-D ends\n";

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
  if (speaks && OnTerminal()) std::cerr << kHelp;
  Json messages = FirstMessages(settings.system);
  while (const std::optional<std::string> line = NextLine(job)) {
    if (*line == "/quit") return;
    if (*line == "/new") messages = FirstMessages(settings.system);
    if (*line == "/new" || IsBlank(*line)) continue;
    messages.push_back({{"role", "user"}, {"content", *line}});
    const Tokens prompt =
        ChatPrompt(settings.tokenizer, settings.chat, messages, {.variables = settings.variables});
    if (settings.positions && std::ssize(prompt) >= *settings.positions) {
      messages.erase(messages.size() - 1);
      if (speaks) {
        std::cerr << "the conversation has " << prompt.size() << " tokens; the model accepts at most "
                  << *settings.positions << "; write less, or /new to start over\n";
      }
      continue;
    }
    messages.push_back(
        {{"role", "assistant"}, {"content", WriteAnswer(generator, settings, prompt, speaks)}});
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
