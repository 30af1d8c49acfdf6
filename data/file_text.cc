#include "data/file_text.h"

#include "core/io/gzip.h"
#include "core/io/zstd.h"

namespace trireme {
namespace {

struct Compression {
  const char* extension;
  std::string (*read)(const std::filesystem::path&, UnpackedAs);
};
// A new one is a function and a line here, and lines in records.cc for the extensions that it is seen with.
constexpr Compression kCompressions[] = {{".gz", ReadGzipFile}, {".zst", ReadZstdFile}};

}  // namespace

FileText::FileText(const std::filesystem::path& path, UnpackedAs as) : path_(path) {
  for (const Compression& compression : kCompressions) {
    if (path.extension() != compression.extension) continue;
    unpacked_ = compression.read(path, as);
    return;
  }
  mapped_.emplace(path);
}

std::string_view FileText::view() const {
  if (!mapped_) return unpacked_;
  return {reinterpret_cast<const char*>(mapped_->bytes().data()), mapped_->bytes().size()};
}

}  // namespace trireme
