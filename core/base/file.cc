// Reads through stdio, for it reports why a directory or a broken disk cannot be read; streams do not.
#include "core/base/file.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

#include "core/base/error.h"

namespace trireme {

std::string ReadTextFile(const std::string& path) {
  const std::unique_ptr<FILE, decltype(&std::fclose)> file(std::fopen(path.c_str(), "rb"), &std::fclose);
  if (!file) throw InputError(path, ": cannot be read: ", std::strerror(errno));
  std::string text;
  char block[16384];
  for (size_t bytes; (bytes = std::fread(block, 1, sizeof(block), file.get())) > 0;)
    text.append(block, bytes);
  if (std::ferror(file.get())) throw InputError(path, ": cannot be read: ", std::strerror(errno));
  return text;
}

}  // namespace trireme
