#include "checkpoint/megatron/layer_numbers.h"

#include <cctype>

namespace trireme {

std::optional<int64_t> NumberAfter(const std::string& name, std::string_view prefix, std::string& rest) {
  if (!name.starts_with(prefix)) return std::nullopt;
  size_t end = prefix.size();
  while (end < name.size() && std::isdigit(static_cast<unsigned char>(name[end])) != 0) ++end;
  if (end == prefix.size() || end - prefix.size() > 9 || end >= name.size() || name[end] != '.') return std::nullopt;
  rest = name.substr(end + 1);
  return std::stoll(name.substr(prefix.size(), end - prefix.size()));
}

std::optional<int64_t> TakeExpert(std::string& name) {
  const std::string_view mark = "experts.";
  const size_t at = name.find(mark);
  if (at == std::string::npos || (at > 0 && name[at - 1] != '.')) return std::nullopt;
  std::string rest;
  const auto number = NumberAfter(name.substr(at), mark, rest);
  if (number) name = name.substr(0, at + mark.size()) + "*." + rest;
  return number;
}

std::string WithExpert(std::string name, std::optional<int64_t> expert) {
  const size_t star = name.find('*');
  return star == std::string::npos || !expert ? name : name.replace(star, 1, std::to_string(*expert));
}

}  // namespace trireme
