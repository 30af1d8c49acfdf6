// A file's text: mapped where it is plain, otherwise unpacked into memory, by its extension. Knows nothing of records.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "core/io/mapped_file.h"
#include "core/io/unpack_guard.h"

namespace trireme {

class FileText {
 public:
  // Throws an input error for a compressed file that is damaged, or too large for what it is to be read as.
  explicit FileText(const std::filesystem::path& path, UnpackedAs as = UnpackedAs::kWhole);
  FileText(const FileText&) = delete;
  FileText& operator=(const FileText&) = delete;

  std::string_view view() const;
  const std::filesystem::path& path() const { return path_; }

 private:
  const std::filesystem::path path_;
  std::optional<MappedFile> mapped_;
  std::string unpacked_;
};

}  // namespace trireme
