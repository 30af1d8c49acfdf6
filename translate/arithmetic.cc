#include "translate/arithmetic.h"

#include <cctype>
#include <charconv>

namespace trireme {
namespace {

class Evaluator {
 public:
  Evaluator(const std::string& text, const std::function<std::string(const std::string&)>& value_of)
      : text_(text), value_of_(value_of) {}

  std::optional<int64_t> All() {
    const std::optional<int64_t> value = Sum();
    Skip();
    return at_ == text_.size() ? value : std::nullopt;
  }

 private:
  using Value = std::optional<int64_t>;

  void Skip() {
    while (at_ < text_.size() && (std::isspace(static_cast<unsigned char>(text_[at_])) || text_[at_] == '$' ||
                                  text_[at_] == '{' || text_[at_] == '}')) {
      ++at_;  // $A and ${A} are A here
    }
  }

  char Take(const std::string& wanted) {
    Skip();
    return at_ < text_.size() && wanted.find(text_[at_]) != std::string::npos ? text_[at_++] : '\0';
  }

  Value Sum() {
    Value left = Product();
    for (char sign = Take("+-"); left && sign != '\0'; sign = Take("+-")) {
      const Value right = Product();
      left = right ? Value(sign == '+' ? *left + *right : *left - *right) : std::nullopt;
    }
    return left;
  }

  Value Product() {
    Value left = One();
    for (char sign = Take("*/%"); left && sign != '\0'; sign = Take("*/%")) {
      const Value right = One();
      if (!right || (sign != '*' && *right == 0)) return std::nullopt;
      left = sign == '*' ? *left * *right : sign == '/' ? *left / *right : *left % *right;
    }
    return left;
  }

  Value One() {
    if (Take("(") != '\0') {
      const Value inner = Sum();
      return Take(")") != '\0' ? inner : std::nullopt;
    }
    Skip();
    const size_t begin = at_;
    while (at_ < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[at_])) || text_[at_] == '_')) ++at_;
    const std::string word = text_.substr(begin, at_ - begin);
    if (word.empty()) return std::nullopt;
    return Number(std::isdigit(static_cast<unsigned char>(word[0])) ? word : value_of_(word));
  }

  static Value Number(const std::string& text) {
    int64_t number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    return error == std::errc() && end == text.data() + text.size() ? Value(number) : std::nullopt;
  }

  const std::string text_;
  const std::function<std::string(const std::string&)>& value_of_;
  size_t at_ = 0;
};

}  // namespace

std::optional<int64_t> Evaluate(const std::string& text,
                                const std::function<std::string(const std::string&)>& value_of) {
  return Evaluator(text, value_of).All();
}

}  // namespace trireme
