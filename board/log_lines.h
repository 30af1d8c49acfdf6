// LogLines: the whole lines of a file that another process appends to, as they come, by looking at it again and again:
// notices of the kernel do not cross network file systems. A file that was cut, replaced or rewritten starts over.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

#include "board/run_files.h"

namespace trireme {

class LogLines {
 public:
  LogLines(std::filesystem::path directory, std::string name)
      : directory_(std::move(directory)), name_(std::move(name)) {}

  // Gives each new line, without its newline, and the offset it begins at; reads about most_bytes at once. Returns
  // false, giving nothing, where all lines so far no longer count.
  bool Poll(int64_t most_bytes, const std::function<void(std::string_view line, int64_t offset)>& take);
  // Whether the last call reached the end of the file.
  bool caught_up() const { return caught_up_; }
  // The line that begins there; empty: it is gone, or longer than a line may be.
  std::string LineAt(int64_t offset) const;

 private:
  bool IsSameFile() const;

  const std::filesystem::path directory_;
  const std::string name_;
  OpenedFile file_;
  int64_t offset_ = 0;  // of the first byte that was not given
  std::string seen_;    // the last bytes before it
  bool caught_up_ = false, skipping_ = false;
};

}  // namespace trireme
