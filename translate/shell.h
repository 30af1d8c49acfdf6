// A shell script as the commands in it, with its variables put in: assignments, arrays, "$NAME", ${NAME:-x}, $((A *
// B)), continued lines, comments. Nothing is ever run: what only a shell knows stays as text ("$(hostname)",
// "${RANK}"), and so does a variable that is set within if, for or a function alone; one that has a value before keeps
// it, with a note.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace trireme {

struct ShellCommand {
  std::vector<std::string> words;
  std::map<std::string, std::string> environment;  // NAME=value before it, and what was exported
  int line = 0;
  std::vector<std::string> notes;  // variables in it that a condition sets anew, which is not followed
};

// `defined` gives variables values that the script's own do not replace.
std::vector<ShellCommand> ReadScript(const std::string& text, const std::map<std::string, std::string>& defined = {});

// The name of the first variable or command in the text that has no value: "RANK" of "a/${RANK}"; empty if none.
std::string UnknownIn(const std::string& text);

}  // namespace trireme
