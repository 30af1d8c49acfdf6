#include "core/base/utf8.h"

#include <algorithm>

namespace trireme {
namespace {

bool IsBetween(unsigned char byte, int least, int most) { return byte >= least && byte <= most; }

// How many bytes the character at the text's beginning has; 0: there is none. RFC 3629, section 4.
size_t CharacterBytes(std::string_view text) {
  const auto at = [&](size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0; };
  const int first = at(0);
  if (first < 0x80) return 1;
  const size_t bytes = first < 0xC2 ? 0 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : first < 0xF5 ? 4 : 0;
  const int least = first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80;
  const int most = first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF;
  if (bytes == 0 || !IsBetween(at(1), least, most)) return 0;
  for (size_t i = 2; i < bytes; ++i) {
    if (!IsBetween(at(i), 0x80, 0xBF)) return 0;
  }
  return bytes;
}

}  // namespace

size_t FirstNotUtf8(std::string_view text) {
  const auto is_ascii = [](char letter) { return static_cast<signed char>(letter) >= 0; };
  for (size_t i = 0; i < text.size();) {
    i = static_cast<size_t>(std::find_if_not(text.begin() + i, text.end(), is_ascii) - text.begin());
    if (i == text.size()) break;
    const size_t bytes = CharacterBytes(text.substr(i));
    if (bytes == 0) return i;
    i += bytes;
  }
  return std::string_view::npos;
}

}  // namespace trireme
