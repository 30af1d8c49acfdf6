#include "translate/shell.h"

#include <algorithm>
#include <cctype>
#include <set>
#include <utility>

#include "core/base/text.h"
#include "translate/shell_blocks.h"
#include "translate/shell_words.h"

namespace trireme {
namespace {

const std::set<std::string> kLoops = {"for", "while", "until"};
const std::set<std::string> kClosing = {"fi", "done", "esac", "}"};
const std::set<std::string> kSkipped = {"then", "do", "!"};

class ScriptReader : private ShellWords {
 public:
  ScriptReader(const std::string& text, const std::map<std::string, std::string>& defined, const std::string& path)
      : ShellWords(text, defined, path) {}

  std::vector<ShellCommand> Read() {
    while (!AtEnd()) blocks_.awaits_pattern() ? ReadPattern() : ReadCommand();
    return commands_;
  }

 private:
  void ReadCommand() {
    ShellCommand command{{}, {}, line_, {}};
    bool only_assignments = true;
    for (SkipBlanks(); !EndsCommand(); SkipBlanks()) {
      if (const std::string name = Placeholder(); !name.empty()) {
        command.words.push_back(name);
        at_ += name.size();
      } else if (Now() == '>' || Now() == '<') {
        SkipRedirection();
      } else if (only_assignments && ReadAssignment(command)) {
      } else {
        const Words words = ReadWord();
        if (words.size() == 1 && command.words.empty() && Keyword(words.front())) {
          if (blocks_.awaits_pattern()) return;  // after `case WORD in`
          continue;
        }
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
    EndCommand(command.words);
  }

  // Moves beyond ;, a new line, && or ||, which decide whether the next command is run.
  void EndCommand(const Words& words) {
    ends_function_head_ = Now() == ')' || (ends_function_head_ && Now() == '\n');
    const bool by_and = At("&&");
    if (by_and || At("||")) {
      const bool says_nothing = words.empty() || (by_and && words.front() != "[" && words.front() != "[[");
      const Truth holds = says_nothing ? Truth(true) : Holds(words);
      list_ = after_or_ ? Either(list_, holds) : Both(list_, holds);
      after_or_ = !by_and;
      at_ += 2;
      return SkipLines();
    }
    list_ = true;
    after_or_ = false;
    if (At(";;")) {
      blocks_.EndPattern();
      ++at_;
    }
    if (!AtEnd() && Now() == '\n') ++line_;
    ++at_;
  }

  Runs RunsNow() const {
    const Truth holds = after_or_ ? Not(list_) : list_;
    const Runs here = !holds ? Runs::kMaybe : *holds ? Runs::kYes : Runs::kNo;
    return std::max(here, blocks_.runs());
  }

  static bool IsDeclaration(const std::string& word) {
    return word == "export" || word == "local" || word == "declare" || word == "readonly" || word == "set";
  }

  // Returns whether the word belongs to the shell's own language.
  bool Keyword(const std::string& word) {
    if (word == "if") {
      blocks_.OpenIf(ReadCondition());
    } else if (word == "elif") {
      blocks_.NextBranch(ReadCondition());
    } else if (word == "else") {
      blocks_.NextBranch(true);
    } else if (word == "case") {
      SkipBlanks();
      blocks_.OpenCase(Join(ReadWord(false), " "));
      SkipBlanks();
      ReadWord();  // in
    } else if (kLoops.contains(word)) {
      blocks_.Open(Runs::kMaybe);
    } else if (word == "function") {
      SkipBlanks();
      ReadWord();
      ends_function_head_ = true;
    } else if (word == "{") {
      blocks_.Open(std::exchange(ends_function_head_, false) ? Runs::kMaybe : Runs::kYes);
    } else if (kClosing.contains(word)) {
      blocks_.Close();
    } else {
      return kSkipped.contains(word);
    }
    return true;
  }

  // "a | b*)" within case, or esac.
  void ReadPattern() {
    Words patterns;
    SkipLines();
    if (Now() == '(') ++at_;
    for (SkipBlanks(); !AtEnd(); SkipBlanks()) {
      const Words word = ReadWord(false);
      if (word == Words{"esac"}) return blocks_.Close();
      patterns.insert(patterns.end(), word.begin(), word.end());
      SkipBlanks();
      const char sign = Now();
      ++at_;
      if (sign != '|') break;
    }
    blocks_.NextPattern(patterns);
  }

  void SkipLines() {
    for (SkipBlanks(); !AtEnd() && Now() == '\n'; SkipBlanks()) {
      ++line_;
      ++at_;
    }
  }

  // What stands between `if` and `then`, or between { and }; nothing if a command must be run for it.
  Truth ReadCondition(const std::string& end = "then") {
    Truth all = true;
    for (bool by_and = true; !AtEnd();) {
      SkipLines();
      bool ends = false;
      const Truth one = ReadConditionPart(end, ends);
      if (ends) return all;
      all = by_and ? Both(all, one) : Either(all, one);
      SkipBlanks();
      by_and = !At("||");
      if (At("&&") || At("||")) {
        at_ += 2;
      } else if (Now() == ';' || Now() == '|' || Now() == '&' || Now() == ')') {
        if (Now() != ';') all = std::nullopt;
        ++at_;
      }
    }
    return std::nullopt;
  }

  Truth ReadConditionPart(const std::string& end, bool& ends) {
    if (Now() == '(') {
      Between('(', ')');  // arithmetic, or commands in a shell of their own
      return std::nullopt;
    }
    Words words;
    for (SkipBlanks(); !AtEnd(); SkipBlanks()) {
      const bool in_brackets = !words.empty() && words.front() == "[[";
      if (Now() == '>' || Now() == '<') {
        SkipRedirection();
      } else if (in_brackets && EndsCommand()) {
        words.push_back(At("&&") || At("||") ? text_.substr(at_, 2) : std::string(1, Now()));
        at_ += words.back().size();
      } else if (EndsCommand()) {
        break;
      } else {
        const Words more = ReadWord();
        words.insert(words.end(), more.begin(), more.end());
        ends = words == Words{end};
        if (words == Words{"{"}) return ReadCondition("}");
        if (ends || more == Words{"]]"}) break;
      }
    }
    return Holds(words);
  }

  // Whether a command that is a condition succeeds; of others that have nothing else to say it is not known.
  static Truth Holds(const Words& words) {
    if (!words.empty() && words.front() == "!") return Not(Holds(Words(words.begin() + 1, words.end())));
    if (words == Words{"true"} || words == Words{":"}) return true;
    if (words == Words{"false"}) return false;
    const bool test = words.size() > 2 && ((words.front() == "[" && words.back() == "]") ||
                                           (words.front() == "[[" && words.back() == "]]"));
    return test ? TestHolds(Words(words.begin() + 1, words.end() - 1)) : std::nullopt;
  }

  // <node1_ip>, which the user is to replace.
  std::string Placeholder() const {
    size_t end = at_ + 1;
    while (end < text_.size() && (IsNameCharacter(text_[end]) || text_[end] == '-')) ++end;
    const bool found = Now() == '<' && end > at_ + 1 && end < text_.size() && text_[end] == '>';
    return found ? text_.substr(at_, end - at_ + 1) : "";
  }

  void SkipRedirection() {
    while (Now() == '>' || Now() == '<' || Now() == '&') ++at_;
    SkipBlanks();
    if (!EndsCommand()) ReadWord();
  }

  // A command that begins with an option continues the one before a commented line.
  void Take(ShellCommand& command) {
    const std::map<std::string, Words> pending = std::exchange(pending_, {});
    if (RunsNow() == Runs::kNo) return;
    if (command.words.empty()) {
      for (const auto& [name, value] : pending) SetVariable(name, value);
      return;
    }
    if (command.words.front().starts_with("--") && !commands_.empty()) {
      Words& before = commands_.back().words;
      before.insert(before.end(), command.words.begin(), command.words.end());
      return;
    }
    for (const auto& [name, value] : variables_) {
      if (!command.environment.contains(name) && value.size() == 1) command.environment[name] = value.front();
    }
    command.notes = notes_;
    commands_.push_back(command);
  }

  void SetVariable(const std::string& name, const Words& value) {
    if (defined_.contains(name) || RunsNow() == Runs::kNo) return;
    if (RunsNow() == Runs::kYes) {
      variables_[name] = value;
      changed_.erase(name);
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
    const bool is_array = Now() == '(';
    Words value = is_array ? ReadArray() : Words{Join(ReadWord(false), " ")};
    const auto before = variables_.find(name);
    if (adds && before != variables_.end()) {
      if (!is_array && value.size() == 1 && before->second.size() == 1) {
        value.front() = before->second.front() + value.front();
      } else {
        value.insert(value.begin(), before->second.begin(), before->second.end());
      }
    }
    if (!is_array) command.environment[name] = defined_.contains(name) ? defined_.at(name) : value.front();
    if (exports_) {
      SetVariable(name, value);
    } else {
      pending_[name] = value;
    }
    return true;
  }

  std::map<std::string, Words> pending_;
  std::vector<ShellCommand> commands_;
  ShellBlocks blocks_;
  Truth list_ = true;  // of the commands before this one, with && and || between them
  bool after_or_ = false, exports_ = false, ends_function_head_ = false;
};

}  // namespace

std::vector<ShellCommand> ReadScript(const std::string& text, const std::map<std::string, std::string>& defined,
                                     const std::string& path) {
  return ScriptReader(text, defined, path).Read();
}

std::string UnknownIn(const std::string& text) {
  const size_t begin = std::min(text.find("${"), text.find("$("));
  if (begin == std::string::npos) return "";
  const size_t end = text.find(text[begin + 1] == '{' ? '}' : ')', begin);
  return text.substr(begin + 2, end == std::string::npos ? std::string::npos : end - begin - 2);
}

}  // namespace trireme
