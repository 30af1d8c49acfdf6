#include "web/hub/part_position.h"

#include <charconv>

#include "core/base/error.h"

namespace trireme {
namespace {

// "bytes 100-199/200".
int64_t PartBegin(const HttpHead& head) {
  const std::string& range = head.header("content-range");
  int64_t begin = -1;
  if (range.starts_with("bytes ")) std::from_chars(range.data() + 6, range.data() + range.size(), begin);
  return begin;
}

}  // namespace

void PartPosition::Take(const HttpHead& head, std::string_view bytes, const HubSource::Sink& sink) {
  if (position_ < 0) {
    position_ = head.status == 206 ? PartBegin(head) : 0;
    if (position_ < 0 || position_ > offset_)
      throw RuntimeError(who_, " sends other bytes than those from ", offset_, " on");
  }
  sink(position_, bytes);
  position_ += std::ssize(bytes);
}

}  // namespace trireme
