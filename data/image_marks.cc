#include "data/image_marks.h"

#include <array>
#include <optional>
#include <utility>

#include "core/base/error.h"
#include "core/base/file.h"
#include "data/record_fields.h"

namespace trireme {
namespace {

constexpr std::string_view kMark = "<image>";

std::string DataUrlOf(const Json::binary_t& bytes) {
  static constexpr char kDigits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string url = "data:image/unknown;base64,";
  url.reserve(url.size() + bytes.size() / 3 * 4 + 4);
  uint32_t held = 0;
  int bits = 0;
  for (const uint8_t byte : bytes) {
    held = (held << 8 | byte) & 0xffff;
    for (bits += 8; bits >= 6; bits -= 6) url += kDigits[held >> (bits - 6) & 63];
  }
  if (bits > 0) url += kDigits[held << (6 - bits) & 63];
  return url;
}

// A source out of a text, bytes, or an object that has one; nothing: it has none, and the list must.
std::optional<std::string> SourceOf(const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_binary()) return DataUrlOf(value.get_binary());
  if (!value.is_object()) return std::nullopt;
  if (Has(value, "base64") && value["base64"].is_string()) {
    return "data:image/unknown;base64," + value["base64"].get<std::string>();
  }
  if (value.value("type", "") == "base64" && Has(value, "data") && value["data"].is_string()) {  // Anthropic's source
    return "data:image/unknown;base64," + value["data"].get<std::string>();
  }
  for (const char* key : {"bytes", "image", "image_url", "url", "path", "source"}) {
    if (!Has(value, key)) continue;
    if (const auto source = SourceOf(value[key])) return source;
  }
  return std::nullopt;
}

size_t CountMarks(const std::string& text) {
  size_t count = 0;
  for (size_t at = text.find(kMark); at != std::string::npos; at = text.find(kMark, at + kMark.size())) ++count;
  return count;
}

class Placer {
 public:
  explicit Placer(const std::vector<std::string>& listed) : listed_(listed) {}

  void Place(Json& content) {
    if (content.is_string()) {
      if (CountMarks(content.get_ref<const std::string&>()) == 0) return;
      Json parts = Json::array();
      AddText(content.get_ref<const std::string&>(), parts);
      content = std::move(parts);
    } else if (content.is_array()) {
      Json parts = Json::array();
      for (const Json& part : content) {
        if (IsImagePart(part)) {
          AddImage(SourceOf(part), parts);
        } else {
          AddText(part["text"].get_ref<const std::string&>(), parts);
        }
      }
      content = std::move(parts);
    }
  }

  std::vector<std::string> Take() {
    if (marks_ != listed_.size()) {
      throw InputError(
          "has ", marks_, " ", kMark, " marks and ", listed_.size(), " images; each image needs its mark: ",
          marks_ < listed_.size() ? "write <image> where the others belong" : "add the images, or remove the marks");
    }
    return std::move(sources_);
  }

 private:
  // Text parts between the marks; no blank is added or lost.
  void AddText(const std::string& text, Json& parts) {
    for (size_t begin = 0;;) {
      const size_t mark = text.find(kMark, begin);
      const std::string piece = text.substr(begin, mark == std::string::npos ? mark : mark - begin);
      if (!piece.empty()) parts.push_back({{"type", "text"}, {"text", piece}});
      if (mark == std::string::npos) return;
      AddImage(std::nullopt, parts);
      begin = mark + kMark.size();
    }
  }

  void AddImage(std::optional<std::string> source, Json& parts) {
    parts.push_back({{"type", "image"}});
    if (!source) {
      if (marks_ < listed_.size()) source = listed_[marks_];
      ++marks_;
    }
    if (source) sources_.push_back(std::move(*source));
  }

  const std::vector<std::string>& listed_;
  size_t marks_ = 0;  // places without a source of their own
  std::vector<std::string> sources_;
};

}  // namespace

bool IsImagePart(const Json& part) {
  if (!part.is_object()) return false;
  const std::string type = part.contains("type") && part["type"].is_string() ? part["type"].get<std::string>() : "";
  return type == "image" || type == "image_url" ||
         (type.empty() && (part.contains("image") || part.contains("image_url")));
}

std::vector<std::string> ListedImages(const Json& record) {
  std::vector<std::string> sources;
  for (const char* key : {"images", "image"}) {
    if (!Has(record, key) || record[key] == "") continue;
    Json list = record[key];
    if (list.is_string() && list.get_ref<const std::string&>().starts_with("[")) {  // of a table of texts
      const Json parsed = TryParseJson(list.get_ref<const std::string&>());
      if (parsed.is_array()) list = parsed;
    }
    if (!list.is_array()) list = Json::array({list});
    for (const Json& item : list) {
      const auto source = SourceOf(item);
      if (!source) {
        throw InputError("'", key, "' has ", item.dump().substr(0, 60),
                         "; wanted a path, a data: URL, or an object with path, ", "url, base64 or bytes");
      }
      sources.push_back(*source);
    }
  }
  return sources;
}

std::vector<std::string> PlaceImages(Json& messages, const std::vector<std::string>& listed) {
  Placer placer(listed);
  for (Json& message : messages) {
    if (message.contains("content")) placer.Place(message["content"]);
  }
  return placer.Take();
}

std::vector<std::string> ResolvedImages(std::vector<std::string> sources, const std::filesystem::path& folder) {
  for (std::string& source : sources) {
    const bool address = source.starts_with("data:") || source.starts_with("http://") || source.starts_with("https://");
    if (address || source.empty()) continue;
    std::filesystem::path path = source.starts_with("file://") ? source.substr(7) : source;
    if (path.is_relative()) path = PathExists(folder / path) || !PathExists(path) ? folder / path : path;
    source = std::filesystem::absolute(path).lexically_normal().string();
  }
  return sources;
}

}  // namespace trireme
