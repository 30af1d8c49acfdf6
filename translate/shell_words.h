// The words of a shell script and what variables put into them: quotes, "$NAME", ${NAME:-x}, arrays, $((A * B)). Knows
// no commands and no conditions (shell.cc). Nothing is run: what only a shell knows stays as text.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

namespace trireme {

class ShellWords {
 protected:
  using Words = std::vector<std::string>;

  ShellWords(const std::string& text, const std::map<std::string, std::string>& defined, const std::string& path)
      : text_(text), defined_(defined), path_(path) {}

  bool AtEnd() const { return at_ >= text_.size(); }
  char Now() const { return AtEnd() ? '\n' : text_[at_]; }
  char Next() const { return at_ + 1 < text_.size() ? text_[at_ + 1] : '\n'; }
  bool At(const std::string& symbol) const { return text_.compare(at_, symbol.size(), symbol) == 0; }

  bool SkipContinuation();  // \ at the end of a line, also with blanks after it
  void SkipBlanks();        // and a comment
  bool EndsCommand() const { return AtEnd() || std::string("\n;&|()").find(Now()) != std::string::npos; }

  // One word as written, which an unquoted variable may split into several or none.
  Words ReadWord(bool splits = true);
  Words ReadArray();                           // at (
  std::string Between(char open, char close);  // what stands between this bracket and its partner; at_ moves beyond it

  const std::string text_;
  const std::map<std::string, std::string> defined_;
  const std::string path_;  // of the script; empty: not known
  std::map<std::string, Words> variables_;
  std::map<std::string, int> changed_;  // set anew where it is not known whether that is run, and in which line
  Words notes_;
  size_t at_ = 0;
  int line_ = 1;

 private:
  void ReadSingleQuoted(std::string& word);
  void ReadDoubleQuoted(const std::function<void(const Words&)>& add);
  void AddQuoted(std::string& word);
  Words ReadExpansion();
  std::string ReadArithmetic();
  std::string Substituted(const std::string& inner);
  std::string DirectoryAsked(const std::string& inner) const;
  Words Braced(const std::string& inner);
  std::string Inside(const std::string& text);
  Words ValueOf(const std::string& name);
  std::function<std::string(const std::string&)> TextOf();
};

bool IsNameCharacter(char c);

}  // namespace trireme
