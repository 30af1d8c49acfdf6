// Help texts, laid out in two columns.
#include "core/cli/help.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/cli/process_options.h"
#include "core/config/help.h"

namespace trireme {
namespace {

using Rows = std::vector<std::pair<std::string, std::string>>;

// "  --set key=value    what it means", the second column aligned over all rows.
std::string TwoColumns(const Rows& rows) {
  size_t width = 0;
  for (const auto& [left, right] : rows) width = std::max(width, left.size());
  std::string text;
  for (const auto& [left, right] : rows) {
    text += Concat("  ", left, std::string(width - left.size() + 3, ' '), right, "\n");
  }
  return text;
}

Rows OptionRows(const std::vector<Option>& options) {
  Rows rows;
  for (const Option& option : options) {
    const std::string value = option.value_name.empty() ? "" : Concat(" ", option.value_name);
    rows.emplace_back(Concat("--", option.name, value, option.repeatable ? " ..." : ""), option.help);
  }
  return rows;
}

std::string ProcessOptionsHelp() {
  Rows rows = OptionRows(ProcessOptions());
  rows.emplace_back("--help", "this text, or that of a command");
  return Concat("\noptions for every command:\n", TwoColumns(rows));
}

std::string FirstSentence(const std::string& text) { return text.substr(0, text.find(". ")); }

std::string UsageLine(const Command& command) {
  std::string usage = Concat("usage: trireme ", command.name);
  for (const Positional& positional : command.positionals) {
    usage += positional.required ? Concat(" ", positional.name) : Concat(" [", positional.name, "]");
    if (positional.repeatable) usage += "...";
  }
  for (const Option& option : CommandOptions(command)) {
    const std::string value = option.value_name.empty() ? "" : Concat(" ", option.value_name);
    const std::string words = Concat("--", option.name, value);
    usage += option.required ? Concat(" ", words) : Concat(" [", words, "]");
    if (option.repeatable) usage += "...";
  }
  return usage + "\n";
}

}  // namespace

std::vector<Option> CommandOptions(const Command& command) {
  std::vector<Option> options = command.options;
  if (command.takes_config) {
    options.push_back({.name = "set",
                       .value_name = "key=value",
                       .help = "set one configuration value, overriding RUN.yaml",
                       .repeatable = true});
  }
  return options;
}

std::string ProgramHelp(const std::vector<Command>& commands, const std::string& first_word) {
  Rows rows;
  for (const Command& command : commands) {
    const bool wanted = first_word.empty() || command.name.starts_with(Concat(first_word, " "));
    if (wanted) rows.emplace_back(command.name, FirstSentence(command.summary));
  }
  if (rows.empty() && !first_word.empty()) return "";
  return Concat("usage: trireme COMMAND [ARGUMENTS], alone or under mpirun -n N; trireme --version\n\ncommands:\n",
                TwoColumns(rows), ProcessOptionsHelp(),
                "\nexit status: 0 done; 1 failed at run time; 2 the input or the configuration is wrong\n");
}

std::string CommandHelp(const Command& command) {
  std::string text = Concat(UsageLine(command), "\n", command.summary, "\n");
  Rows positionals;
  for (const Positional& positional : command.positionals) positionals.emplace_back(positional.name, positional.help);
  if (!positionals.empty()) text += Concat("\narguments:\n", TwoColumns(positionals));
  if (!CommandOptions(command).empty()) text += Concat("\noptions:\n", TwoColumns(OptionRows(CommandOptions(command))));
  text += ProcessOptionsHelp();
  if (command.takes_config) text += Concat("\n", ConfigHelp());
  return text;
}

}  // namespace trireme
