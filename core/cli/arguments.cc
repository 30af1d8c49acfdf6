// Arguments of a command, by name.
#include "core/cli/arguments.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "core/base/error.h"

namespace trireme {

void Arguments::Declare(const std::string& name) { values_.try_emplace(name); }

void Arguments::Add(const std::string& name, const std::string& value) { values_.at(name).push_back(value); }

const std::vector<std::string>& Arguments::values(const std::string& name) const {
  const auto found = values_.find(name);
  TRIREME_CHECK(found != values_.end()) << "this command describes no option or argument '" << name << "'";
  return found->second;
}

std::string Arguments::value(const std::string& name, const std::string& fallback) const {
  const std::vector<std::string>& given = values(name);
  return given.empty() ? fallback : given.back();
}

int64_t Arguments::integer(const std::string& name, int64_t fallback, int64_t least) const {
  if (!has(name)) return fallback;
  const std::string text = value(name);
  int64_t number = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (failure != std::errc() || end != text.data() + text.size() || number < least) {
    throw InputError("--", name, " ", text, ": wanted a whole number of at least ", least);
  }
  return number;
}

double Arguments::number(const std::string& name, double fallback, double least) const {
  if (!has(name)) return fallback;
  const std::string text = value(name);
  double number = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (failure != std::errc() || end != text.data() + text.size() || !std::isfinite(number) || number < least) {
    throw InputError("--", name, " ", text, ": wanted a number of at least ", least);
  }
  return number;
}

bool Arguments::Overrides(const std::string& key) const {
  return std::ranges::any_of(overrides(), [&](const std::string& text) {
    const std::string said = text.substr(0, text.find('='));
    return key == said || key.starts_with(said + ".");
  });
}

}  // namespace trireme
