// The command line, word by word.
#include "core/cli/parse.h"

#include <algorithm>
#include <deque>
#include <optional>

#include "core/base/error.h"
#include "core/base/home_path.h"
#include "core/base/nearest.h"
#include "core/base/text.h"
#include "core/cli/help.h"
#include "core/cli/other_commands.h"
#include "core/cli/process_options.h"
#include "core/config/former_names.h"
#include "core/config/other_names.h"
#include "core/config/schema.h"

namespace trireme {
namespace {

using Words = std::deque<std::string>;

std::string TakeFirst(Words& words) {
  const std::string word = words.front();
  words.pop_front();
  return word;
}

bool LooksLikeOption(const std::string& word) { return word.size() > 1 && word[0] == '-'; }

bool AsksForHelp(const std::string& word) { return word == "--help" || word == "-h"; }

const Option* FindOption(const std::vector<Option>& options, const std::string& name) {
  for (const Option& option : options) {
    if (option.name == name) return &option;
  }
  return nullptr;
}

// "--world" of "--world=8".
std::string WithoutValue(const std::string& word) { return word.substr(0, word.find('=')); }

// "~" in "--model=~/x" arrives unexpanded: shells look only at the beginning of a word. Free text is left
// alone, and --set is parsed with the configuration.
std::string AsMeant(const std::string& value_name, const std::string& value) {
  return value_name == "TEXT" || value_name == "key=value" ? value : ExpandHome(value);
}

// The value in "--world=8", or else the next word, removed from `rest`.
std::string TakeValue(const Option& option, const std::string& word, Words& rest) {
  const size_t equals = word.find('=');
  if (option.value_name.empty()) {
    if (equals != std::string::npos) throw InputError(word, ": --", option.name, " takes no value");
    return "";
  }
  if (equals != std::string::npos) return AsMeant(option.value_name, word.substr(equals + 1));
  if (rest.empty() || rest.front().starts_with("--")) {
    throw InputError("--", option.name, ": wanted a value, as in --", option.name, " ", option.value_name);
  }
  return AsMeant(option.value_name, TakeFirst(rest));
}

// Returns whether the word was an option for the whole process.
bool TakeProcessOption(const std::string& word, Words& rest) {
  if (!word.starts_with("--")) return false;
  const Option* option = FindOption(ProcessOptions(), WithoutValue(word).substr(2));
  if (option == nullptr) return false;
  SetProcessOption(*option, TakeValue(*option, word, rest));
  return true;
}

// --lora_rank of another system, or --optimizer.lr: a key of RUN.yaml, not an option.
std::optional<std::string> KeyHint(const std::string& word) {
  const std::string name = word.substr(word.find_first_not_of('-'));
  const std::vector<std::string> keys = KeysUnder(*Config::descriptor());
  if (std::ranges::find(keys, PresentName(name)) != keys.end())
    return Concat("write --set ", PresentName(name), "=VALUE");
  const std::optional<std::string> theirs = OtherNameHint(name);
  const std::vector<std::string> same = theirs ? std::vector<std::string>{} : SameNames(name);
  if (!same.empty())
    return Concat("in Trireme it is ", Join(same, " or "), "; write it into RUN.yaml, or --set KEY=VALUE");
  if (!theirs || !theirs->starts_with("in Trireme")) return theirs;
  return Concat(*theirs, "; write it into RUN.yaml, or --set KEY=VALUE");
}

Error UnknownOption(const std::string& word, const std::vector<Option>& known, const std::string& command,
                    bool takes_config) {
  if (const auto hint = takes_config ? KeyHint(WithoutValue(word)) : std::nullopt) {
    return InputError("unknown option ", WithoutValue(word), "; ", *hint);
  }
  std::vector<std::string> names = {"--help", "--version"};
  for (const Option& option : known) names.push_back(Concat("--", option.name));
  for (const Option& option : ProcessOptions()) names.push_back(Concat("--", option.name));
  const auto near = Nearest(WithoutValue(word), names);
  const std::string hint = near ? Concat("did you mean ", *near, "?") : Concat("see trireme ", command, "--help");
  return InputError("unknown option ", WithoutValue(word), "; ", hint);
}

Error UnknownCommand(const Words& words, const std::vector<Command>& commands) {
  const std::string first = words.front();
  std::vector<std::string> names, group;
  for (const Command& command : commands) {
    names.push_back(command.name);
    if (command.name.starts_with(first + " ")) group.push_back(command.name);
  }
  const bool has_second = words.size() > 1 && !LooksLikeOption(words[1]);
  if (!group.empty() && !has_second) {
    return InputError("'", first, "' alone is not a command; wanted one of ", Join(group));
  }
  if (const auto hint = OtherCommandHint(first)) return InputError("unknown command '", first, "'; ", *hint);
  const std::string given = group.empty() ? first : Concat(first, " ", words[1]);
  const auto near = Nearest(given, names);
  const std::string hint =
      near ? Concat("did you mean '", *near, "'?") : Concat("known: ", Join(group.empty() ? names : group));
  return InputError("unknown command '", given, "'; ", hint);
}

// The command named by the first words, which are removed; two-word names take precedence.
const Command* TakeCommand(const std::vector<Command>& commands, Words& words) {
  const std::string one = words.front();
  const std::string two = words.size() > 1 ? Concat(one, " ", words[1]) : one;
  for (const std::string& name : {two, one}) {
    for (const Command& command : commands) {
      if (command.name != name) continue;
      words.erase(words.begin(), words.begin() + (name == one ? 1 : 2));
      return &command;
    }
  }
  return nullptr;
}

class ArgumentParser {
 public:
  explicit ArgumentParser(const Command& command) : command_(command), options_(CommandOptions(command)) {
    for (const Option& option : options_) arguments_.Declare(option.name);
    for (const Positional& positional : command.positionals) arguments_.Declare(positional.name);
  }

  // Nothing if the user asked for help.
  std::optional<Arguments> Parse(Words words) {
    bool options_ended = false;
    while (!words.empty()) {
      const std::string word = TakeFirst(words);
      if (options_ended || takes_all_ || !LooksLikeOption(word)) {
        TakePositional(word);
      } else if (word == "--") {
        options_ended = true;
      } else if (AsksForHelp(word)) {
        return std::nullopt;
      } else if (!TakeProcessOption(word, words)) {
        TakeOption(word, words);
      }
    }
    RefuseMissing();
    return arguments_;
  }

 private:
  void TakePositional(const std::string& word) {
    if (positionals_taken_ == command_.positionals.size()) {
      throw InputError("'", word, "' is one argument too many; see trireme ", command_.name, " --help");
    }
    const Positional& positional = command_.positionals[positionals_taken_];
    arguments_.Add(positional.name, ExpandHome(word));
    if (!positional.repeatable) ++positionals_taken_;
    takes_all_ = positional.takes_options;
  }

  void TakeOption(const std::string& word, Words& rest) {
    const Option* option = word.starts_with("--") ? FindOption(options_, WithoutValue(word).substr(2)) : nullptr;
    if (option == nullptr) throw UnknownOption(word, options_, command_.name + " ", command_.takes_config);
    if (arguments_.has(option->name) && !option->repeatable) {
      throw InputError("--", option->name, " was given twice; keep one");
    }
    arguments_.Add(option->name, TakeValue(*option, word, rest));
  }

  void RefuseMissing() const {
    for (const Positional& positional : command_.positionals) {
      if (!positional.required || arguments_.has(positional.name)) continue;
      throw InputError("trireme ", command_.name, ": missing ", positional.name, ", ", positional.help);
    }
    for (const Option& option : options_) {
      if (!option.required || arguments_.has(option.name)) continue;
      throw InputError("trireme ", command_.name, ": missing --", option.name, " ", option.value_name, ", ",
                       option.help);
    }
  }

  const Command& command_;
  const std::vector<Option> options_;
  Arguments arguments_;
  size_t positionals_taken_ = 0;
  bool takes_all_ = false;  // what remains are the words of another command
};

}  // namespace

Invocation ParseCommandLine(const std::vector<Command>& commands, const std::vector<std::string>& given,
                            const std::string& version) {
  Words words(given.begin(), given.end());
  while (!words.empty() && LooksLikeOption(words.front())) {
    const std::string word = TakeFirst(words);
    if (AsksForHelp(word)) return {.text = ProgramHelp(commands)};
    if (word == "--version") return {.text = Concat("trireme ", version, "\n")};
    if (!TakeProcessOption(word, words)) throw UnknownOption(word, {}, "", false);
  }
  if (words.empty()) throw InputError("no command given; see trireme --help");

  const Command* command = TakeCommand(commands, words);
  if (command == nullptr) {
    const bool asks_for_help = words.size() > 1 && AsksForHelp(words[1]);
    const std::string group = asks_for_help ? ProgramHelp(commands, words.front()) : "";
    if (group.empty()) throw UnknownCommand(words, commands);
    return {.text = group};
  }
  const std::optional<Arguments> arguments = ArgumentParser(*command).Parse(words);
  if (!arguments) return {.text = CommandHelp(*command)};
  return {.command = command, .arguments = *arguments};
}

}  // namespace trireme
