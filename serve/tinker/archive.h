// Files of checkpoints for download: a tar of a directory, or one file, read piece by piece while it is sent. Files are
// opened at once: what happens to their directory afterwards does not change what is sent. Links: addresses that work
// for a while without a key, since clients fetch them with plain HTTP. No compression; knows no owner and no path of
// the protocol.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace trireme::tinker {

class FileStream {
 public:
  // Of one file, as it is.
  static FileStream OfFile(const std::filesystem::path& file);
  // A tar of these files by their last names, and of an empty file for each name of `marks`.
  static FileStream OfTar(const std::vector<std::filesystem::path>& files, const std::vector<std::string>& marks);
  FileStream(FileStream&& other) noexcept;
  FileStream& operator=(FileStream&&) = delete;
  ~FileStream();

  int64_t bytes() const { return bytes_; }
  // The next piece, at most 256 KiB; empty: that was all. Throws if a file cannot be read to its end.
  std::string Next();

 private:
  struct Part {
    std::string text = {};  // sent as it is, or
    int file = -1;          // so many bytes of this
    int64_t bytes = 0;
    std::string name = {};
  };
  FileStream() = default;
  void AddText(std::string text);
  void AddFile(const std::filesystem::path& file);

  std::vector<Part> parts_;
  size_t at_ = 0;
  int64_t done_ = 0;  // of the part
  int64_t bytes_ = 0;
};

class Links {
 public:
  Links();  // with a secret of its own: links end with the process

  // "TEXT?expires=N&signature=…"
  std::string Sign(const std::string& text, int64_t expires) const;
  // Whether the target is one that Sign made, and `now` is before its end.
  bool Check(const std::string& target, int64_t now) const;

 private:
  std::string SignatureOf(const std::string& text, const std::string& expires) const;
  const std::string secret_;
};

}  // namespace trireme::tinker
