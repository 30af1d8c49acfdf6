#include "launch/generate_chat.h"

#include <unistd.h>

#include <algorithm>
#include <iostream>
#include <iterator>
#include <utility>

#include "core/base/error.h"
#include "core/base/text.h"
#include "data/image_marks.h"
#include "generation/text/prompts.h"
#include "launch/generate_tools.h"

namespace trireme {
namespace {

constexpr const char* kToolLine = "/tool ";
constexpr const char* kImageLine = "/image ";

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

std::string HelpText(const ChatSettings& settings) {
  return Concat(settings.images.sees() ? "/image FILE adds an image to the next line, " : "",
                settings.tools.is_null() ? "" : "/tool RESULT answers a call of the model, ",
                "/new starts a new conversation, /quit or ctrl-D ends\n");
}

// Calls of the model at the end of the conversation that have no result yet.
int64_t OpenCalls(const Json& messages) {
  int64_t results = 0;
  for (auto message = messages.rbegin(); message != messages.rend(); ++message) {
    if ((*message)["role"] != "tool")
      return message->contains("tool_calls") ? std::ssize((*message)["tool_calls"]) - results : 0;
    ++results;
  }
  return 0;
}

// What was said so far, the same on every rank; what the user did wrong is told on rank 0.
class Talk {
 public:
  Talk(const ChatSettings& settings, Job& job) : settings_(settings), job_(job), speaks_(job.rank() == 0) {
    Restart();
    pending_ = settings.first_images;
  }

  void Restart() {
    messages_ = Json::array();
    if (!settings_.system.empty()) messages_.push_back({{"role", "system"}, {"content", settings_.system}});
    images_.clear();
    pending_.clear();
  }

  // Whether it is the model's turn now.
  bool Add(const std::string& line) {
    if (line.starts_with(kImageLine)) return AddImage(line.substr(std::string_view(kImageLine).size()));
    if (line.starts_with(kToolLine)) return AddResult(line.substr(std::string_view(kToolLine).size()));
    messages_.push_back(UserMessage(line, pending_.size()));
    images_.insert(images_.end(), pending_.begin(), pending_.end());
    asked_ = std::exchange(pending_, {}).size();
    return true;
  }

  // For the model; nothing: the last line is taken back, for the images cannot be read or there are too many tokens.
  std::optional<SeenPrompt> Prompt() {
    std::optional<SeenPrompt> prompt;
    std::string problem;
    try {
      Tokens rendered = ChatPrompt(settings_.tokenizer, settings_.chat, messages_,
                                   {.tools = settings_.tools, .variables = settings_.variables});
      prompt = settings_.images.Read(std::move(rendered), images_, "the conversation");
      if (settings_.positions && std::ssize(prompt->tokens) >= *settings_.positions) {
        problem = Concat("the conversation has ", prompt->tokens.size(), " tokens; the model accepts at most ",
                         *settings_.positions, "; write less, or /new to start over");
      }
    } catch (const Error& error) {
      if (!settings_.images.sees()) throw;
      problem = error.what();
    }
    problem = OfAnyRank(problem);
    if (problem.empty()) return prompt;
    messages_.erase(messages_.size() - 1);
    images_.resize(images_.size() - std::exchange(asked_, 0));
    Tell(problem);
    return std::nullopt;
  }

  void TakeAnswer(const std::string& text) {
    messages_.push_back(AssistantMessage(settings_.tool_form, text));
    asked_ = 0;
  }

 private:
  void Tell(const std::string& text) const {
    if (speaks_) std::cerr << text << "\n";
  }

  // The first problem that a rank has: all of them take a line back, or none. Ranks of other hosts have other files.
  std::string OfAnyRank(const std::string& problem) const {
    for (std::string& one : job_.GatherStrings(problem)) {
      if (!one.empty()) return std::move(one);
    }
    return "";
  }

  // Known to be one before the line that asks about it.
  bool AddImage(const std::string& file) {
    if (!settings_.images.sees()) {
      Tell("the model has no vision tower: it sees no images");
      return false;
    }
    std::vector<std::string> resolved;
    std::string problem;
    try {
      resolved = ResolvedImages({file}, ".");
      settings_.images.CheckFiles(resolved);
    } catch (const Error& error) {
      problem = error.what();
    }
    problem = OfAnyRank(problem);
    problem.empty() ? pending_.push_back(resolved.front()) : Tell(problem);
    return false;
  }

  bool AddResult(const std::string& result) {
    const int64_t open = OpenCalls(messages_);
    if (open > 0) messages_.push_back({{"role", "tool"}, {"content", result}});
    if (open == 0) Tell("no call of a tool is open; write a line for the model, or /quit");
    if (open > 1) Tell(Concat("the model made more calls: ", Counted(open - 1, "result"), " to go"));
    return open == 1;
  }

  const ChatSettings& settings_;
  Job& job_;
  const bool speaks_;
  Json messages_;
  std::vector<std::string> images_;   // of the messages, in their order
  std::vector<std::string> pending_;  // of the next line
  size_t asked_ = 0;                  // images of the last line
};

std::string WriteAnswer(Generator& generator, const ChatSettings& settings, const SeenPrompt& prompt, bool speaks) {
  const int64_t room = settings.positions ? *settings.positions - std::ssize(prompt.tokens) : settings.most;
  Completion completion(settings.rules, std::min(settings.most, room), &settings.tokenizer);
  const TakeToken take = [&](size_t, int64_t token) {
    const bool goes_on = completion.Take(token);
    if (speaks) std::cout << completion.NewText() << std::flush;
    return goes_on;
  };
  generator.Run({prompt.tokens}, settings.options, take, {prompt.images});
  if (speaks) std::cout << "\n" << std::flush;
  return completion.text();
}

}  // namespace

void Chat(Generator& generator, const ChatSettings& settings, Job& job) {
  const bool speaks = job.rank() == 0;
  if (speaks && OnTerminal()) std::cerr << HelpText(settings);
  Talk talk(settings, job);
  while (const std::optional<std::string> line = NextLine(job)) {
    if (*line == "/quit") return;
    if (*line == "/new") talk.Restart();
    if (*line == "/new" || IsBlank(*line) || !talk.Add(*line)) continue;
    if (const std::optional<SeenPrompt> prompt = talk.Prompt())
      talk.TakeAnswer(WriteAnswer(generator, settings, *prompt, speaks));
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
