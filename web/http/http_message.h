// What stands in an HTTP/1.1 response: its first line, headers, and a body of known length, in chunks, or up to the end
// of the connection. Parses bytes; knows no sockets. No torch.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>

namespace trireme {

struct HttpHead {
  int status = 0;
  std::string reason = {};                          // "404 Not Found"
  std::map<std::string, std::string> headers = {};  // by lower-case names; of several with one name the first

  // Empty: there is none.
  const std::string& header(const std::string& lower_case_name) const;
  // Content-Length; -1: there is none, or it is not a number.
  int64_t content_length() const;
  bool redirects() const;
};

// Everything before the empty line. A status of 0: it is not HTTP.
HttpHead ParseHttpHead(std::string_view text);

// The bytes of a body, as they come.
class HttpBody {
 public:
  using Sink = std::function<void(std::string_view)>;

  // A length that is none is a runtime error: to read until the connection ends would take what was cut off for whole.
  HttpBody(const HttpHead& head, Sink sink);

  // Throws a runtime error where chunks are broken.
  void Take(std::string_view bytes);
  bool ended() const { return ended_; }
  // The connection has ended: whether the body has, too.
  bool MayEndHere() const { return ended_ || (!chunked_ && left_ < 0); }
  int64_t taken() const { return taken_; }

 private:
  void TakePlain(std::string_view bytes);
  void TakeChunks(std::string_view bytes);
  void TakeLine(const std::string& line);

  const Sink sink_;
  const bool chunked_;
  int64_t left_ = -1;  // of the body, or of the chunk; -1: not known
  int64_t taken_ = 0;
  bool after_chunk_ = false, in_trailer_ = false, ended_ = false;
  std::string line_ = {};  // a line between chunks, so far
};

}  // namespace trireme
