#include "web/hub/hub_name.h"

#include <algorithm>
#include <cctype>

#include "web/hub/hub_settings.h"

namespace trireme {
namespace {

bool IsPartOfName(const std::string& text) {
  const bool plain = std::ranges::all_of(text, [](unsigned char letter) {
    return std::isalnum(letter) != 0 || letter == '-' || letter == '_' || letter == '.';
  });
  return plain && !text.empty() && text[0] != '.' && text.size() <= 96;
}

}  // namespace

std::optional<HubName> ParseHubName(const std::string& text) {
  const size_t slash = text.find('/'), at = text.find('@');
  if (slash == std::string::npos || (at != std::string::npos && at < slash)) return std::nullopt;
  HubName name{text.substr(0, slash), text.substr(slash + 1, at == std::string::npos ? at : at - slash - 1), "",
               HubKind::kModel, PrefersModelScope()};
  if (at != std::string::npos) name.revision = text.substr(at + 1);
  if (!IsPartOfName(name.owner) || !IsPartOfName(name.name)) return std::nullopt;
  if (at != std::string::npos && !IsPartOfName(name.revision)) return std::nullopt;
  return name;
}

}  // namespace trireme
