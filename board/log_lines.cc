#include "board/log_lines.h"

#include <sys/stat.h>

#include <algorithm>

namespace trireme {
namespace {

constexpr int64_t kLongestLine = int64_t{16} << 20;
constexpr size_t kSeenBytes = 256;  // times and losses with all their digits: enough to recognise a line

}  // namespace

// By its name, its length and what precedes the new bytes: a resumed run cuts its log in place and writes on.
bool LogLines::IsSameFile() const {
  const OpenedFile named = OpenRunFile(directory_, name_.c_str());
  struct stat now = {}, before = {};
  if (!named.is_open() || fstat(named.fd(), &now) != 0 || fstat(file_.fd(), &before) != 0) return false;
  if (now.st_ino != before.st_ino || now.st_dev != before.st_dev || now.st_size < offset_) return false;
  const auto length = static_cast<int64_t>(seen_.size());
  return file_.Read(offset_ - length, length) == seen_;
}

bool LogLines::Poll(int64_t most_bytes, const std::function<void(std::string_view, int64_t)>& take) {
  if (file_.is_open() && !IsSameFile()) {
    const bool had_any = offset_ > 0;
    file_ = OpenedFile();
    offset_ = 0;
    seen_.clear();
    caught_up_ = skipping_ = false;
    if (had_any) return false;
  }
  if (!file_.is_open()) file_ = OpenRunFile(directory_, name_.c_str());
  const std::string text = file_.is_open() ? file_.Read(offset_, most_bytes) : "";
  size_t begin = 0;
  for (size_t end; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1) {
    if (!skipping_) take(std::string_view(text).substr(begin, end - begin), offset_ + static_cast<int64_t>(begin));
    skipping_ = false;
  }
  const bool whole_file = static_cast<int64_t>(text.size()) < most_bytes;
  if (begin == 0 && !whole_file) {
    // Longer than what is read at once: try with more, up to a limit.
    if (most_bytes < kLongestLine && !skipping_) return Poll(kLongestLine, take);
    skipping_ = true;
    begin = text.size();
  }
  offset_ += static_cast<int64_t>(begin);
  seen_.append(text, begin - std::min(begin, kSeenBytes), std::min(begin, kSeenBytes));
  if (seen_.size() > kSeenBytes) seen_.erase(0, seen_.size() - kSeenBytes);
  caught_up_ = whole_file;
  return true;
}

std::string LogLines::LineAt(int64_t offset) const {
  std::string text;
  for (int64_t bytes = 64 << 10; bytes <= kLongestLine; bytes *= 4) {
    text = file_.Read(offset, bytes);
    const size_t end = text.find('\n');
    if (end != std::string::npos) return text.substr(0, end);
    if (static_cast<int64_t>(text.size()) < bytes) break;
  }
  return "";
}

}  // namespace trireme
