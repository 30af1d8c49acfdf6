#include "data/hub/hub_set_name.h"

#include <strings.h>

#include <algorithm>
#include <cctype>
#include <string_view>
#include <utility>

namespace trireme {
namespace {

bool IsPlain(std::string_view text, std::string_view others) {
  const bool letters = std::ranges::all_of(text, [&](unsigned char letter) {
    return std::isalnum(letter) != 0 || others.find(static_cast<char>(letter)) != std::string_view::npos;
  });
  return letters && !text.empty() && text[0] != '.' && text.size() <= 96;
}

// Revisions have slashes: refs/convert/parquet.
bool IsRevision(const std::string& text) {
  return IsPlain(text, "-_./") && text.find("..") == std::string::npos && text[0] != '/' && text.back() != '/';
}

SetHub TakeHub(std::string& text) {
  for (const auto& [prefix, hub] : {std::pair{"hf::", SetHub::kHuggingFace}, std::pair{"ms::", SetHub::kModelScope}}) {
    if (strncasecmp(text.c_str(), prefix, 4) != 0) continue;
    text.erase(0, 4);
    return hub;
  }
  return SetHub::kDefault;
}

// Nothing: one of them cannot be the name of a subset or a split.
std::optional<std::vector<std::string>> NamedParts(std::string_view text) {
  std::vector<std::string> parts;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find('/', begin), text.size());
    parts.emplace_back(text.substr(begin, end - begin));
    const bool plain = std::ranges::none_of(parts.back(), [](unsigned char c) { return c < ' ' || c == 0x7f; });
    if (!plain || parts.back().empty() || parts.back().size() > 200) return std::nullopt;
    begin = end + 1;
  }
  return parts;
}

}  // namespace

std::optional<HubSetName> ParseHubSetName(const std::string& text) {
  constexpr std::string_view kRevision = "?revision=";
  HubSetName name;
  std::string rest = text;
  name.hub = TakeHub(rest);
  if (const size_t mark = rest.find(kRevision); mark != std::string::npos) {
    name.revision = rest.substr(mark + kRevision.size());
    if (!IsRevision(name.revision)) return std::nullopt;
    rest.erase(mark);
  }
  if (const size_t colon = rest.find(':'); colon != std::string::npos) {
    auto parts = NamedParts(std::string_view(rest).substr(colon + 1));
    if (!parts) return std::nullopt;
    name.parts = std::move(*parts);
    rest.erase(colon);
  }
  const size_t slash = rest.find('/');
  if (slash == std::string::npos) return std::nullopt;
  name.owner = rest.substr(0, slash);
  name.name = rest.substr(slash + 1);
  const bool plain = IsPlain(name.owner, "-_.") && IsPlain(name.name, "-_.");
  return plain ? std::optional(name) : std::nullopt;
}

}  // namespace trireme
