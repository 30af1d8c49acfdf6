#include "web/http/http_message.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <utility>

#include "core/base/error.h"

namespace trireme {
namespace {

constexpr size_t kLongestChunkLine = 4096;

std::string LowerCase(std::string_view text) {
  std::string lower(text);
  std::ranges::transform(lower, lower.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return lower;
}

std::string_view Trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t"), last = text.find_last_not_of(" \t\r");
  return first == std::string_view::npos ? "" : text.substr(first, last - first + 1);
}

int64_t NumberIn(std::string_view text, int base) {
  int64_t number = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, base);
  return error == std::errc() && end == text.data() + text.size() && number >= 0 ? number : -1;
}

}  // namespace

const std::string& HttpHead::header(const std::string& lower_case_name) const {
  static const std::string none;
  const auto found = headers.find(lower_case_name);
  return found == headers.end() ? none : found->second;
}

int64_t HttpHead::content_length() const { return NumberIn(header("content-length"), 10); }

bool HttpHead::redirects() const {
  return (status == 301 || status == 302 || status == 303 || status == 307 || status == 308) &&
         !header("location").empty();
}

HttpHead ParseHttpHead(std::string_view text) {
  HttpHead head;
  const std::string_view first = text.substr(0, text.find("\r\n"));
  const size_t space = first.find(' ');
  if (!first.starts_with("HTTP/1.") || space == std::string_view::npos) return head;
  head.reason = Trimmed(first.substr(space + 1));
  std::from_chars(head.reason.data(), head.reason.data() + head.reason.size(), head.status);
  while (!text.empty()) {
    const size_t end = text.find("\r\n");
    text = end == std::string_view::npos ? "" : text.substr(end + 2);
    const std::string_view line = text.substr(0, text.find("\r\n"));
    const size_t colon = line.find(':');
    if (colon != std::string_view::npos)
      head.headers.emplace(LowerCase(line.substr(0, colon)), Trimmed(line.substr(colon + 1)));
  }
  return head;
}

HttpBody::HttpBody(const HttpHead& head, Sink sink)
    : sink_(std::move(sink)), chunked_(LowerCase(head.header("transfer-encoding")).ends_with("chunked")) {
  if (chunked_) {
    left_ = 0;
  } else {
    left_ = head.content_length();
    if (const std::string& length = head.header("content-length"); left_ < 0 && !length.empty())
      throw RuntimeError("the response has a Content-Length of '", length.substr(0, 40), "'; wanted a number of bytes");
    ended_ = left_ == 0 || head.status == 204 || head.status == 304;
  }
}

void HttpBody::Take(std::string_view bytes) { chunked_ ? TakeChunks(bytes) : TakePlain(bytes); }

void HttpBody::TakePlain(std::string_view bytes) {
  if (ended_) return;
  if (left_ >= 0) bytes = bytes.substr(0, static_cast<size_t>(std::min<int64_t>(left_, std::ssize(bytes))));
  if (!bytes.empty()) sink_(bytes);
  taken_ += std::ssize(bytes);
  if (left_ < 0) return;
  left_ -= std::ssize(bytes);
  ended_ = left_ == 0;
}

void HttpBody::TakeChunks(std::string_view bytes) {
  while (!bytes.empty() && !ended_) {
    if (left_ > 0) {
      const auto part = bytes.substr(0, static_cast<size_t>(std::min<int64_t>(left_, std::ssize(bytes))));
      sink_(part);
      taken_ += std::ssize(part);
      left_ -= std::ssize(part);
      after_chunk_ = left_ == 0;
      bytes.remove_prefix(part.size());
      continue;
    }
    const size_t end = bytes.find('\n');
    line_ += bytes.substr(0, end);
    if (line_.size() > kLongestChunkLine)
      throw RuntimeError("the response has a broken chunk: a line of more than ", kLongestChunkLine, " bytes");
    if (end == std::string_view::npos) return;
    bytes.remove_prefix(end + 1);
    TakeLine(std::string(Trimmed(std::exchange(line_, ""))));
  }
}

void HttpBody::TakeLine(const std::string& line) {
  if (in_trailer_) {
    ended_ = line.empty();
    return;
  }
  if (after_chunk_) {
    if (!line.empty()) throw RuntimeError("the response has a broken chunk: it is longer than it says");
    after_chunk_ = false;
    return;
  }
  const int64_t size = NumberIn(Trimmed(line.substr(0, line.find(';'))), 16);
  if (size < 0) throw RuntimeError("the response has a broken chunk: its size is '", line.substr(0, 20), "'");
  left_ = size;
  in_trailer_ = size == 0;
}

}  // namespace trireme
