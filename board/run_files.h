// RunFiles: the files of one run's output directory that the board reads, by their own names only. A name never leaves
// the directory and no link is followed, so that whoever can reach the board reads nothing else.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace trireme {

enum class RunState { kRunning, kDone, kStopped };

// An open file; closed with it.
class OpenedFile {
 public:
  OpenedFile() = default;
  explicit OpenedFile(int fd) : fd_(fd) {}
  ~OpenedFile();
  OpenedFile(OpenedFile&& other) noexcept : fd_(other.fd_) { other.fd_ = -1; }
  OpenedFile& operator=(OpenedFile&& other) noexcept;

  bool is_open() const { return fd_ >= 0; }
  int fd() const { return fd_; }
  int64_t bytes() const;
  // Fewer bytes than asked for at the end of the file.
  std::string Read(int64_t offset, int64_t most_bytes) const;

 private:
  int fd_ = -1;
};

// A regular file directly in `directory`; not open: there is none.
OpenedFile OpenRunFile(const std::filesystem::path& directory, const char* name);
bool HasRunFile(const std::filesystem::path& directory, const char* name);
bool HasRunFolder(const std::filesystem::path& directory, const char* name);

// When the run was started the last time, in seconds since 1970; of one without a run.yaml when it wrote its log. 0: it
// has neither.
double StartedAt(const std::filesystem::path& directory);

// By the lock that a run holds while it is active, and by final/.
RunState StateOf(const std::filesystem::path& directory);
const char* NameOf(RunState state);

// Whole lines from the end of a file backwards: those that end before `before` (-1: the end of the file), at most
// `most_lines` and about `most_bytes`.
struct FileTail {
  std::string lines;  // in the file's order
  int64_t begin = 0;  // where they begin: the next `before`; 0: nothing is before them
};
FileTail ReadTail(const OpenedFile& file, int64_t before, int64_t most_lines, int64_t most_bytes);

}  // namespace trireme
