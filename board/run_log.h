// RunLog: log.jsonl of a run, as columns that grow while the run writes, and positions in it that survive a restart of
// whoever follows it: a position holds as long as the lines before it are the very same.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "board/columns.h"
#include "board/log_lines.h"

namespace trireme {

struct LogPosition {
  int64_t rows = 0;
  uint64_t digest = 0;  // of all lines before it
  bool operator==(const LogPosition&) const = default;
};
std::string ToText(const LogPosition& position);  // "120.89abcdef01234567"
std::optional<LogPosition> ParseLogPosition(const std::string& text);

class RunLog {
 public:
  explicit RunLog(const std::filesystem::path& directory) : lines_(directory, "log.jsonl") {}

  // Reads what is new, in slices, so that a long log does not hold up others. Returns whether anything changed.
  bool Poll();
  bool caught_up() const { return lines_.caught_up(); }

  const Columns& columns() const { return columns_; }
  LogPosition position() const { return {columns_.rows(), digests_.empty() ? 0 : digests_.back()}; }
  bool Holds(const LogPosition& position) const;
  // The line of a row as it was written; empty: there is no such row.
  std::string Line(int64_t row) const;

 private:
  LogLines lines_;
  Columns columns_;
  std::vector<uint64_t> digests_;  // [rows]: of the line and all before it
  std::vector<int64_t> offsets_;   // [rows]
};

}  // namespace trireme
