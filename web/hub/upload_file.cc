#include "web/hub/upload_file.h"

#include <fstream>

#include "core/base/error.h"
#include "web/hub/blob_digest.h"

namespace trireme {

int64_t UploadFile::Size() const {
  return static_cast<int64_t>(file.empty() ? text.size() : std::filesystem::file_size(file));
}

std::string UploadFile::Read(int64_t offset, int64_t count) const {
  if (file.empty()) return text.substr(static_cast<size_t>(offset), static_cast<size_t>(count));
  std::ifstream input(file, std::ios::binary);
  std::string bytes(static_cast<size_t>(count), '\0');
  input.seekg(offset);
  input.read(bytes.data(), count);
  if (input.gcount() == count) return bytes;
  throw RuntimeError(file.string(), ": cannot be read from byte ", offset, " on: has it changed?");
}

std::string UploadFile::Digest(size_t digits) const {
  return file.empty() ? TextDigest(text, digits) : BlobDigest(file, digits);
}

}  // namespace trireme
