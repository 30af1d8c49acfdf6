// The page: static files that are part of the program, served with an ETag and a policy that lets a browser load
// nothing from anywhere else. Knows no run and no model.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "web/http/http.h"

namespace trireme {

struct EmbeddedFile {
  const char* name;  // "main.js"
  const unsigned char* data;
  size_t bytes;
};
extern const EmbeddedFile kPageFiles[];  // the build generates the definitions
extern const size_t kPageFileCount;

// "/" is index.html, /page/NAME any of the files; nothing: the path is not of the page.
const EmbeddedFile* FindPageFile(const std::string& path);

// The file, or 304 if the browser has it already.
HttpResponse PageResponse(const EmbeddedFile& file, const HttpRequest& request);

}  // namespace trireme
