#include "board/run_log.h"

#include <charconv>
#include <cstdio>

namespace trireme {
namespace {

constexpr int64_t kSliceBytes = int64_t{4} << 20;

// FNV-1a, carried on from line to line: tells logs apart, and is not for cryptography.
uint64_t Extended(uint64_t digest, std::string_view line) {
  constexpr uint64_t kPrime = 1099511628211u, kBasis = 14695981039346656037u;
  digest = digest == 0 ? kBasis : digest;
  for (const char byte : line) digest = (digest ^ static_cast<unsigned char>(byte)) * kPrime;
  return (digest ^ '\n') * kPrime;
}

}  // namespace

std::string ToText(const LogPosition& position) {
  char digest[20];
  std::snprintf(digest, sizeof digest, "%016llx", static_cast<unsigned long long>(position.digest));
  return std::to_string(position.rows) + "." + digest;
}

std::optional<LogPosition> ParseLogPosition(const std::string& text) {
  LogPosition position;
  const char* end = text.data() + text.size();
  const auto rows = std::from_chars(text.data(), end, position.rows);
  if (rows.ec != std::errc() || rows.ptr == end || *rows.ptr != '.' || position.rows < 0) return std::nullopt;
  const auto digest = std::from_chars(rows.ptr + 1, end, position.digest, 16);
  if (digest.ec != std::errc() || digest.ptr != end) return std::nullopt;
  return position;
}

bool RunLog::Poll() {
  const int64_t before = columns_.rows();
  const bool grows = lines_.Poll(kSliceBytes, [this](std::string_view line, int64_t offset) {
    if (!columns_.AddLine(line)) return;
    digests_.push_back(Extended(digests_.empty() ? 0 : digests_.back(), line));
    offsets_.push_back(offset);
  });
  if (grows) return columns_.rows() != before;
  columns_.Clear();
  digests_.clear();
  offsets_.clear();
  return true;
}

bool RunLog::Holds(const LogPosition& position) const {
  if (position.rows == 0) return true;
  return position.rows <= columns_.rows() && digests_[static_cast<size_t>(position.rows) - 1] == position.digest;
}

std::string RunLog::Line(int64_t row) const {
  return row < 0 || row >= columns_.rows() ? "" : lines_.LineAt(offsets_[static_cast<size_t>(row)]);
}

}  // namespace trireme
