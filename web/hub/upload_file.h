// UploadFile: what is to become a file of a repository: a file here, or a text. No torch.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace trireme {

struct UploadFile {
  std::string path;            // in the repository
  std::filesystem::path file;  // here; empty: `text` is its content
  std::string text = {};

  int64_t Size() const;
  // So many of its bytes; a runtime error if they cannot be read.
  std::string Read(int64_t offset, int64_t count) const;
  std::string Digest(size_t digits) const;  // as BlobDigest has it
};

}  // namespace trireme
