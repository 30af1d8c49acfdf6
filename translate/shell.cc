#include "translate/shell.h"

#include <algorithm>
#include <cctype>
#include <functional>
#include <optional>
#include <set>
#include <utility>

#include "core/base/text.h"
#include "translate/arithmetic.h"

namespace trireme {
namespace {

bool IsNameCharacter(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

const std::set<std::string> kOpening = {"if", "for", "while", "until", "case", "{"};
const std::set<std::string> kClosing = {"fi", "done", "esac", "}"};
const std::set<std::string> kSkipped = {"then", "else", "elif", "do", "!"};

// Variables that a script never sets and passes on as a whole are empty there, as in bash.
bool MeansNothingUnset(const std::string& name) {
  for (const char* end : {"ARGS", "OPTS", "OPTIONS", "CONFIG", "PARAMS", "args", "@"}) {
    if (name.ends_with(end)) return true;
  }
  return false;
}

class ScriptReader {
 public:
  ScriptReader(const std::string& text, const std::map<std::string, std::string>& defined)
      : text_(text), defined_(defined) {}

  std::vector<ShellCommand> Read() {
    while (at_ < text_.size()) ReadCommand();
    return commands_;
  }

 private:
  using Words = std::vector<std::string>;

  char Now() const { return at_ < text_.size() ? text_[at_] : '\n'; }
  char Next() const { return at_ + 1 < text_.size() ? text_[at_ + 1] : '\n'; }

  // \ at the end of a line, also with blanks after it.
  bool SkipContinuation() {
    if (Now() != '\\') return false;
    const size_t end = text_.find_first_not_of(" \t\r", at_ + 1);
    if (end != std::string::npos && text_[end] != '\n') return false;
    at_ = end == std::string::npos ? text_.size() : end + 1;
    ++line_;
    return true;
  }

  void SkipBlanks() {
    while (at_ < text_.size() && (Now() == ' ' || Now() == '\t' || Now() == '\r' || SkipContinuation())) {
      if (Now() == ' ' || Now() == '\t' || Now() == '\r') ++at_;
    }
    if (at_ < text_.size() && Now() == '#') at_ = std::min(text_.find('\n', at_), text_.size());
  }

  bool EndsCommand() const { return at_ >= text_.size() || std::string("\n;&|()").find(Now()) != std::string::npos; }

  void ReadCommand() {
    ShellCommand command{{}, {}, line_};
    bool only_assignments = true;
    for (SkipBlanks(); !EndsCommand(); SkipBlanks()) {
      if (Now() == '>' || Now() == '<') {
        SkipRedirection();
      } else if (only_assignments && ReadAssignment(command)) {
      } else {
        const Words words = ReadWord();
        if (words.size() == 1 && command.words.empty() && Keyword(words.front())) continue;
        if (words.size() == 1 && command.words.empty() && IsDeclaration(words.front())) {
          exports_ = true;
          continue;
        }
        only_assignments = only_assignments && words.empty();
        command.words.insert(command.words.end(), words.begin(), words.end());
      }
    }
    exports_ = false;
    Take(command);
    if (at_ < text_.size() && Now() == '\n') ++line_;
    ++at_;
  }

  static bool IsDeclaration(const std::string& word) {
    return word == "export" || word == "local" || word == "declare" || word == "readonly" || word == "set";
  }

  // Returns whether the word belongs to the shell's own language.
  bool Keyword(const std::string& word) {
    depth_ += static_cast<int>(kOpening.contains(word)) - static_cast<int>(kClosing.contains(word));
    return kOpening.contains(word) || kClosing.contains(word) || kSkipped.contains(word);
  }

  void SkipRedirection() {
    while (Now() == '>' || Now() == '<' || Now() == '&') ++at_;
    SkipBlanks();
    if (!EndsCommand()) ReadWord();
  }

  // A command that begins with an option continues the one before a commented line.
  void Take(ShellCommand& command) {
    if (command.words.empty()) {
      if (!pending_.empty()) {
        for (const auto& [name, value] : pending_) SetVariable(name, value);
      }
      pending_.clear();
      return;
    }
    pending_.clear();
    if (command.words.front().starts_with("--") && !commands_.empty()) {
      Words& before = commands_.back().words;
      before.insert(before.end(), command.words.begin(), command.words.end());
      return;
    }
    for (const auto& [name, value] : variables_) {
      if (!command.environment.contains(name) && value.size() == 1) command.environment[name] = value.front();
    }
    command.notes = std::exchange(notes_, {});
    commands_.push_back(command);
  }

  void SetVariable(const std::string& name, const Words& value) {
    if (defined_.contains(name)) return;
    if (depth_ == 0) {
      variables_[name] = value;
    } else if (variables_.contains(name)) {
      changed_.emplace(name, line_);
    } else {
      variables_[name] = {Concat("${", name, "}")};
    }
  }

  // NAME=value, NAME+=value, NAME=(words): of this command alone if a word follows, otherwise from here on.
  bool ReadAssignment(ShellCommand& command) {
    size_t end = at_;
    while (end < text_.size() && IsNameCharacter(text_[end])) ++end;
    const bool adds = text_.compare(end, 2, "+=") == 0;
    if (end == at_ || (text_[end] != '=' && !adds) || std::isdigit(static_cast<unsigned char>(text_[at_])))
      return false;
    const std::string name = text_.substr(at_, end - at_);
    at_ = end + (adds ? 2 : 1);
    Words value = Now() == '(' ? ReadArray() : Words{Join(ReadWord(false), " ")};
    const auto before = variables_.find(name);
    if (adds && before != variables_.end()) {
      if (value.size() == 1 && before->second.size() == 1) {
        value.front() = before->second.front() + value.front();
      } else {
        value.insert(value.begin(), before->second.begin(), before->second.end());
      }
    }
    if (value.size() == 1) command.environment[name] = defined_.contains(name) ? defined_.at(name) : value.front();
    if (exports_) {
      SetVariable(name, value);
    } else {
      pending_[name] = value;
    }
    return true;
  }

  Words ReadArray() {
    Words items;
    for (++at_; at_ < text_.size() && Now() != ')';) {
      SkipBlanks();
      if (Now() == '\n' && at_ < text_.size()) {
        ++line_;
        ++at_;
      } else if (Now() != ')') {
        const Words words = ReadWord();
        items.insert(items.end(), words.begin(), words.end());
      }
    }
    ++at_;
    return items;
  }

  // One word as written, which an unquoted variable may split into several or none.
  Words ReadWord(bool splits = true) {
    Words done;
    std::string word;
    bool quoted = false;
    const auto add = [&](const Words& values, bool split) {
      Words pieces;
      for (const std::string& value : values) split ? Split(value, pieces) : pieces.push_back(value);
      for (size_t i = 0; i < pieces.size(); ++i) {
        if (i > 0) done.push_back(std::exchange(word, ""));
        word += pieces[i];
      }
    };
    while (at_ < text_.size() && Now() != ' ' && Now() != '\t' && Now() != '\r' && !EndsCommand()) {
      if (Now() == '\\' && SkipContinuation()) break;
      if (Now() == '>' || Now() == '<') {
        if (word.find_first_not_of("0123456789") == std::string::npos) word.clear();  // the 2 of 2>&1
        break;
      }
      if (Now() == '\\') {
        word += Next();
        at_ += 2;
      } else if (Now() == '\'') {
        quoted = true;
        ReadSingleQuoted(word);
      } else if (Now() == '"') {
        quoted = quoted || Next() == '"';  // "$@" without arguments is no word
        ReadDoubleQuoted(add);
      } else if (Now() == '$' || Now() == '`') {
        add(ReadExpansion(), splits);
      } else {
        word += text_[at_++];
      }
    }
    if (!word.empty() || (quoted && done.empty())) done.push_back(word);
    return done;
  }

  static void Split(const std::string& value, Words& pieces) {
    if (value.find("$(") != std::string::npos || value.starts_with("${")) return pieces.push_back(value);
    for (size_t begin = 0; begin < value.size();) {
      begin = value.find_first_not_of(" \t\n\r", begin);
      if (begin == std::string::npos) return;
      const size_t end = std::min(value.find_first_of(" \t\n\r", begin), value.size());
      pieces.push_back(value.substr(begin, end - begin));
      begin = end;
    }
  }

  void ReadSingleQuoted(std::string& word) {
    for (++at_; at_ < text_.size() && Now() != '\''; ++at_) AddQuoted(word);
    ++at_;
  }

  void AddQuoted(std::string& word) {
    line_ += Now() == '\n' ? 1 : 0;
    word += Now();
  }

  template <typename Add>
  void ReadDoubleQuoted(const Add& add) {
    for (++at_; at_ < text_.size() && Now() != '"';) {
      std::string piece;
      if (SkipContinuation()) {
        piece = " ";
      } else if (Now() == '$' || Now() == '`') {
        add(ReadExpansion(), false);
        continue;
      } else {
        if (Now() == '\\' && (Next() == '"' || Next() == '\\' || Next() == '$' || Next() == '`')) ++at_;
        AddQuoted(piece);
        ++at_;
      }
      add({piece}, false);
    }
    ++at_;
  }

  // At $ or `: the values, of an array several; what has none stays as text.
  Words ReadExpansion() {
    if (Now() == '`') return {Concat("$(", Between('`', '`'), ")")};
    if (text_.compare(at_, 3, "$((") == 0) return {ReadArithmetic()};
    if (Next() == '(') {
      ++at_;
      const std::string inner = Between('(', ')');
      const auto value = inner.starts_with("expr ") ? Evaluate(inner.substr(5), TextOf()) : std::nullopt;
      return {value ? std::to_string(*value) : Concat("$(", inner, ")")};
    }
    if (Next() == '{') {
      ++at_;
      return Braced(Between('{', '}'));
    }
    const size_t begin = ++at_;
    while (at_ < text_.size() && IsNameCharacter(Now())) ++at_;
    if (at_ == begin && at_ < text_.size() && std::string("@*#?$!").find(Now()) != std::string::npos) ++at_;
    if (at_ == begin) return {"$"};
    return ValueOf(text_.substr(begin, at_ - begin));
  }

  // What stands between this bracket and its partner; at_ moves beyond it.
  std::string Between(char open, char close) {
    const size_t begin = ++at_;
    for (int depth = 1; at_ < text_.size(); ++at_) {
      line_ += Now() == '\n' ? 1 : 0;
      if (Now() == close && --depth == 0) break;
      if (Now() == open) ++depth;
    }
    const std::string inner = text_.substr(begin, at_ - begin);
    ++at_;
    return inner;
  }

  std::function<std::string(const std::string&)> TextOf() {
    return [this](const std::string& name) { return Join(ValueOf(name), " "); };
  }

  std::string ReadArithmetic() {
    ++at_;
    const std::string inner = Between('(', ')');
    const std::string expression = inner.size() > 2 ? inner.substr(1, inner.size() - 2) : "";
    const auto value = Evaluate(expression, TextOf());
    return value ? std::to_string(*value) : Concat("$((", expression, "))");
  }

  Words Braced(const std::string& inner) {
    size_t end = 0;
    while (end < inner.size() && IsNameCharacter(inner[end])) ++end;
    const std::string name = inner.substr(0, end), rest = inner.substr(end);
    if (rest.empty() || rest == "[@]" || rest == "[*]") return ValueOf(name);
    const bool has_default = rest.starts_with(":-") || rest.starts_with(":=") || rest[0] == '-';
    if (!has_default || name.empty()) return {Concat("${", inner, "}")};
    if (Known(name)) return ValueOf(name);
    ScriptReader inside(rest.substr(rest[0] == '-' ? 1 : 2), defined_);
    inside.variables_ = variables_;
    return {Join(inside.ReadWord(false), " ")};
  }

  bool Known(const std::string& name) const { return defined_.contains(name) || variables_.contains(name); }

  Words ValueOf(const std::string& name) {
    if (defined_.contains(name)) return {defined_.at(name)};
    if (const auto changed = changed_.find(name); changed != changed_.end()) {
      notes_.push_back(
          Concat(name, " is also set within a condition, in line ", changed->second, "; its value before is taken"));
      changed_.erase(changed);
    }
    const auto found = variables_.find(name);
    if (found != variables_.end()) return found->second;
    return MeansNothingUnset(name) ? Words{} : Words{Concat("${", name, "}")};
  }

  const std::string text_;
  const std::map<std::string, std::string> defined_;
  std::map<std::string, Words> variables_, pending_;
  std::map<std::string, int> changed_;  // set anew within a condition, and in which line
  std::vector<std::string> notes_;
  std::vector<ShellCommand> commands_;
  size_t at_ = 0;
  int line_ = 1, depth_ = 0;
  bool exports_ = false;
};

}  // namespace

std::vector<ShellCommand> ReadScript(const std::string& text, const std::map<std::string, std::string>& defined) {
  return ScriptReader(text, defined).Read();
}

std::string UnknownIn(const std::string& text) {
  const size_t begin = std::min(text.find("${"), text.find("$("));
  if (begin == std::string::npos) return "";
  const size_t end = text.find(text[begin + 1] == '{' ? '}' : ')', begin);
  return text.substr(begin + 2, end == std::string::npos ? std::string::npos : end - begin - 2);
}

}  // namespace trireme
