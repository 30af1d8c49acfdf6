#include "images/image_source.h"

#include "core/base/error.h"

namespace trireme::images {
namespace {

using Content = std::variant<std::vector<uint8_t>, MappedFile>;

bool StartsWith(const std::string& text, std::string_view prefix) {
  return text.compare(0, prefix.size(), prefix) == 0;
}

std::vector<uint8_t> FromDataUrl(const std::string& text) {
  const size_t comma = text.find(',');
  if (comma == std::string::npos) throw InputError("image ", text.substr(0, 40), "…: a data: URL without a comma");
  const std::string head = text.substr(0, comma);
  if (head.size() < 7 || head.compare(head.size() - 7, 7, ";base64") != 0) {
    throw InputError("image ", head, ",…: only base64 is read from data: URLs (data:image/png;base64,…)");
  }
  return FromBase64(std::string_view(text).substr(comma + 1), head);
}

std::filesystem::path FileOf(const std::string& text, const std::filesystem::path& folder) {
  if (text.empty()) throw InputError("an image without a name; use a path or a data: URL");
  if (StartsWith(text, "http://") || StartsWith(text, "https://")) {
    throw InputError("image ", text, ": images are not downloaded; store it in a file and name that");
  }
  const std::filesystem::path path = StartsWith(text, "file://") ? text.substr(7) : text;
  return path.is_absolute() ? path : folder / path;
}

int Digit(char c) {
  if (c >= 'A' && c <= 'Z') return c - 'A';
  if (c >= 'a' && c <= 'z') return c - 'a' + 26;
  if (c >= '0' && c <= '9') return c - '0' + 52;
  if (c == '+' || c == '-') return 62;
  return c == '/' || c == '_' ? 63 : -1;
}

}  // namespace

std::vector<uint8_t> FromBase64(std::string_view text, const std::string& name) {
  std::vector<uint8_t> bytes;
  bytes.reserve(text.size() / 4 * 3 + 3);
  uint32_t held = 0;
  int bits = 0;
  for (const char c : text) {
    if (c == '=' || c == '\n' || c == '\r' || c == ' ') continue;
    const int digit = Digit(c);
    if (digit < 0) throw InputError("image ", name, ": character ", static_cast<int>(c), " is not base64");
    held = (held << 6 | static_cast<uint32_t>(digit)) & 0xffff;
    bits += 6;
    if (bits < 8) continue;
    bits -= 8;
    bytes.push_back(static_cast<uint8_t>(held >> bits));
  }
  return bytes;
}

ImageSource::ImageSource(const std::string& text, const std::filesystem::path& folder)
    : name_(StartsWith(text, "data:") ? Concat(text.substr(0, std::min(text.find(','), size_t{40})), ",…")
                                      : FileOf(text, folder).string()),
      content_(StartsWith(text, "data:") ? Content(FromDataUrl(text)) : Content(MappedFile(name_))) {}

Bytes ImageSource::bytes() const {
  if (const auto* bytes = std::get_if<std::vector<uint8_t>>(&content_)) return *bytes;
  const auto mapped = std::get<MappedFile>(content_).bytes();
  return {reinterpret_cast<const uint8_t*>(mapped.data()), mapped.size()};
}

}  // namespace trireme::images
