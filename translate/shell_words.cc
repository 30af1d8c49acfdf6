#include "translate/shell_words.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <regex>
#include <utility>

#include "core/base/text.h"
#include "translate/arithmetic.h"

namespace trireme {
namespace {

// Variables that a script never sets and passes on as a whole are empty there, as in bash.
bool MeansNothingUnset(const std::string& name) {
  for (const char* end : {"ARGS", "OPTS", "OPTIONS", "CONFIG", "PARAMS", "args", "@"}) {
    if (name.ends_with(end)) return true;
  }
  return false;
}

void SplitAtBlanks(const std::string& value, std::vector<std::string>& pieces) {
  if (value.find("$(") != std::string::npos || value.starts_with("${")) return pieces.push_back(value);
  for (size_t begin = 0; begin < value.size();) {
    begin = value.find_first_not_of(" \t\n\r", begin);
    if (begin == std::string::npos) return;
    const size_t end = std::min(value.find_first_of(" \t\n\r", begin), value.size());
    pieces.push_back(value.substr(begin, end - begin));
    begin = end;
  }
}

}  // namespace

bool IsNameCharacter(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

bool ShellWords::SkipContinuation() {
  if (Now() != '\\') return false;
  const size_t end = text_.find_first_not_of(" \t\r", at_ + 1);
  if (end != std::string::npos && text_[end] != '\n') return false;
  at_ = end == std::string::npos ? text_.size() : end + 1;
  ++line_;
  return true;
}

void ShellWords::SkipBlanks() {
  while (!AtEnd() && (Now() == ' ' || Now() == '\t' || Now() == '\r' || SkipContinuation())) {
    if (Now() == ' ' || Now() == '\t' || Now() == '\r') ++at_;
  }
  if (!AtEnd() && Now() == '#') at_ = std::min(text_.find('\n', at_), text_.size());
}

ShellWords::Words ShellWords::ReadArray() {
  Words items;
  for (++at_; !AtEnd() && Now() != ')';) {
    SkipBlanks();
    if (Now() == '\n' && !AtEnd()) {
      ++line_;
      ++at_;
    } else if (Now() != ')') {
      const size_t before = at_;
      const Words words = ReadWord();
      items.insert(items.end(), words.begin(), words.end());
      if (at_ == before) ++at_;  // a sign that no array has
    }
  }
  ++at_;
  return items;
}

ShellWords::Words ShellWords::ReadWord(bool splits) {
  Words done;
  std::string word;
  bool quoted = false;
  const auto add = [&](const Words& values, bool split) {
    Words pieces;
    for (const std::string& value : values) split ? SplitAtBlanks(value, pieces) : pieces.push_back(value);
    for (size_t i = 0; i < pieces.size(); ++i) {
      if (i > 0) done.push_back(std::exchange(word, ""));
      word += pieces[i];
    }
  };
  while (!AtEnd() && Now() != ' ' && Now() != '\t' && Now() != '\r' && !EndsCommand()) {
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
      ReadDoubleQuoted([&](const Words& values) {
        quoted = quoted || !values.empty();
        add(values, false);
      });
    } else if (Now() == '$' || Now() == '`') {
      add(ReadExpansion(), splits);
    } else {
      word += text_[at_++];
    }
  }
  if (!word.empty() || (quoted && done.empty())) done.push_back(word);
  return done;
}

void ShellWords::ReadSingleQuoted(std::string& word) {
  for (++at_; !AtEnd() && Now() != '\''; ++at_) AddQuoted(word);
  ++at_;
}

void ShellWords::AddQuoted(std::string& word) {
  line_ += Now() == '\n' ? 1 : 0;
  word += Now();
}

void ShellWords::ReadDoubleQuoted(const std::function<void(const Words&)>& add) {
  for (++at_; !AtEnd() && Now() != '"';) {
    std::string piece;
    if (SkipContinuation()) {
      piece = " ";
    } else if (Now() == '$' || Now() == '`') {
      add(ReadExpansion());
      continue;
    } else {
      if (Now() == '\\' && (Next() == '"' || Next() == '\\' || Next() == '$' || Next() == '`')) ++at_;
      AddQuoted(piece);
      ++at_;
    }
    add({piece});
  }
  ++at_;
}

// At $ or `: the values, of an array several; what has none stays as text.
ShellWords::Words ShellWords::ReadExpansion() {
  if (Now() == '`') return {Concat("$(", Between('`', '`'), ")")};
  if (At("$((")) return {ReadArithmetic()};
  if (Next() == '(') {
    ++at_;
    return {Substituted(Between('(', ')'))};
  }
  if (Next() == '{') {
    ++at_;
    return Braced(Between('{', '}'));
  }
  const size_t begin = ++at_;
  while (!AtEnd() && IsNameCharacter(Now())) ++at_;
  if (at_ == begin && !AtEnd() && std::string("@*#?$!").find(Now()) != std::string::npos) ++at_;
  if (at_ == begin) return {"$"};
  return ValueOf(text_.substr(begin, at_ - begin));
}

std::string ShellWords::Between(char open, char close) {
  const size_t begin = ++at_;
  for (int depth = 1; !AtEnd(); ++at_) {
    line_ += Now() == '\n' ? 1 : 0;
    if (Now() == close && --depth == 0) break;
    if (Now() == open) ++depth;
  }
  const std::string inner = text_.substr(begin, at_ - begin);
  ++at_;
  return inner;
}

std::function<std::string(const std::string&)> ShellWords::TextOf() {
  return [this](const std::string& name) { return Join(ValueOf(name), " "); };
}

std::string ShellWords::ReadArithmetic() {
  ++at_;
  const std::string inner = Between('(', ')');
  const std::string expression = inner.size() > 2 ? inner.substr(1, inner.size() - 2) : "";
  const auto value = Evaluate(expression, TextOf());
  return value ? std::to_string(*value) : Concat("$((", expression, "))");
}

// Where the script lies, as $(cd "$(dirname "$0")/.." && pwd) asks; empty if that is not the question.
std::string ShellWords::DirectoryAsked(const std::string& inner) const {
  static const std::regex question(
      R"re(dirname\s+(?:--\s+)?"?\$(?:\{BASH_SOURCE\[0\]\}|\{BASH_SOURCE\}|BASH_SOURCE|\{?0\}?)"?\)([^"\s]*))re");
  std::smatch match;
  if (path_.empty() || !std::regex_search(inner, match, question)) return "";
  const std::string directory = std::filesystem::absolute(path_).parent_path().string() + match[1].str();
  const std::string plain = std::filesystem::path(directory).lexically_normal().string();
  return plain.size() > 1 && plain.back() == '/' ? plain.substr(0, plain.size() - 1) : plain;
}

// $(expr A / B), the script's own directory, and the question whether there is an NPU.
std::string ShellWords::Substituted(const std::string& inner) {
  if (inner.starts_with("expr ")) {
    const auto value = Evaluate(inner.substr(5), TextOf());
    if (value) return std::to_string(*value);
  }
  if (const std::string directory = DirectoryAsked(inner); !directory.empty()) return directory;
  static const std::regex npu("import torch_npu.*&&\\s*echo\\s+(\\w+)");
  std::smatch match;
  if (!std::regex_search(inner, match, npu)) return Concat("$(", inner, ")");
  notes_.push_back(Concat("the script asks whether torch_npu is installed; ", match[1].str(), " is taken"));
  return match[1];
}

ShellWords::Words ShellWords::Braced(const std::string& inner) {
  size_t end = 0;
  while (end < inner.size() && IsNameCharacter(inner[end])) ++end;
  const std::string name = inner.substr(0, end), rest = inner.substr(end);
  if (rest.empty() || rest == "[@]" || rest == "[*]") return ValueOf(name);
  const bool colon = rest[0] == ':';
  const char sign = rest.size() > (colon ? 1 : 0) ? rest[colon ? 1 : 0] : '\0';
  const bool known = defined_.contains(name) || variables_.contains(name);
  const Words value = known ? ValueOf(name) : Words{};
  const bool has_value = known && !(colon && Join(value, " ").empty());
  if (sign == '?' && has_value) return value;
  if (name.empty() || (sign != '-' && sign != '=' && sign != '+')) return {Concat("${", inner, "}")};
  if (has_value == (sign != '+')) return sign == '+' ? Words{} : value;
  return {Inside(rest.substr(colon ? 2 : 1))};
}

// The text after ${NAME:-, with its own variables.
std::string ShellWords::Inside(const std::string& text) {
  ShellWords inside(text, defined_, path_);
  inside.variables_ = variables_;
  const std::string value = Join(inside.ReadWord(false), " ");
  notes_.insert(notes_.end(), inside.notes_.begin(), inside.notes_.end());
  return value;
}

ShellWords::Words ShellWords::ValueOf(const std::string& name) {
  if (defined_.contains(name)) return {defined_.at(name)};
  if (const auto changed = changed_.find(name); changed != changed_.end()) {
    notes_.push_back(
        Concat(name, " is also set within a condition, in line ", changed->second, "; its value before is taken"));
    changed_.erase(changed);
  }
  const auto found = variables_.find(name);
  if (found != variables_.end()) return found->second;
  if (name == "HOME") return {"~"};
  return MeansNothingUnset(name) ? Words{} : Words{Concat("${", name, "}")};
}

}  // namespace trireme
