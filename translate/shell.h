// A shell script as the commands in it, with its variables put in: assignments, arrays, "$NAME", ${NAME:-x}, $((A *
// B)), continued lines, comments, and if and case where what they ask is written in the script. Nothing is ever run:
// what only a shell knows stays as text ("$(hostname)", "${RANK}"), and so does a variable that is set alone where it
// is not known whether that is run: in for, in a function, in an if that asks for a file. One that has a value before
// keeps it, with a note.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace trireme {

struct ShellCommand {
  std::vector<std::string> words;
  std::map<std::string, std::string> environment;  // NAME=value before it, and what was exported
  int line = 0;
  std::vector<std::string> notes;  // what was assumed where only a shell knows
};

// `defined` gives variables values that the script's own do not replace; `path` is the script's, which may ask for it.
std::vector<ShellCommand> ReadScript(const std::string& text, const std::map<std::string, std::string>& defined = {},
                                     const std::string& path = "");

// The name of the first variable or command in the text that has no value: "RANK" of "a/${RANK}"; empty if none.
std::string UnknownIn(const std::string& text);

}  // namespace trireme
