#include "board/page_files.h"

#include <map>
#include <string_view>

#include "core/base/error.h"
#include "core/io/digest.h"

namespace trireme {
namespace {

constexpr const char* kPagePolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; base-uri "
    "'none'; "
    "form-action 'none'; frame-ancestors 'none'";

std::string TypeOf(std::string_view name) {
  if (name.ends_with(".html")) return "text/html; charset=utf-8";
  return name.ends_with(".css") ? "text/css; charset=utf-8" : "text/javascript; charset=utf-8";
}

std::string BytesOf(const EmbeddedFile& file) {
  return std::string(reinterpret_cast<const char*>(file.data), file.bytes);
}

std::map<std::string, std::string> TagsOfFiles() {
  std::map<std::string, std::string> tags;
  for (size_t i = 0; i < kPageFileCount; ++i) {
    tags[kPageFiles[i].name] = Concat("\"", Digest().Add(BytesOf(kPageFiles[i])).Hex(), "\"");
  }
  return tags;
}

}  // namespace

const EmbeddedFile* FindPageFile(const std::string& path) {
  const std::string prefix = "/page/";
  const std::string name = path == "/" ? "index.html" : path.starts_with(prefix) ? path.substr(prefix.size()) : "";
  for (size_t i = 0; i < kPageFileCount; ++i) {
    if (name == kPageFiles[i].name) return &kPageFiles[i];
  }
  return nullptr;
}

HttpResponse PageResponse(const EmbeddedFile& file, const HttpRequest& request) {
  static const std::map<std::string, std::string> tags = TagsOfFiles();
  const std::string& tag = tags.at(file.name);
  HttpResponse response{.type = TypeOf(file.name)};
  response.headers = {{"ETag", tag},
                      {"Cache-Control", "no-cache"},
                      {"Content-Security-Policy", kPagePolicy},
                      {"Cross-Origin-Resource-Policy", "same-origin"},
                      {"Referrer-Policy", "no-referrer"}};
  if (request.header("if-none-match") == tag) {
    response.status = 304;
  } else {
    response.body = BytesOf(file);
  }
  return response;
}

}  // namespace trireme
