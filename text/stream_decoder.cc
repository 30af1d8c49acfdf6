#include "text/stream_decoder.h"

#include <string_view>

namespace trireme {
namespace {

constexpr std::string_view kHalf = "\xEF\xBF\xBD";  // U+FFFD: decoded from an incomplete character

}  // namespace

std::string StreamDecoder::Add(int32_t id) {
  ids_.push_back(id);
  return NewText(/*last=*/false);
}

std::string StreamDecoder::Finish() { return NewText(/*last=*/true); }

std::string StreamDecoder::NewText(bool last) {
  const std::string all = tokenizer_.Decode(ids_, skip_special_);
  size_t certain = all.size();
  while (!last && std::string_view(all).substr(0, certain).ends_with(kHalf)) certain -= kHalf.size();
  if (certain <= given_) return {};
  std::string fresh = all.substr(given_, certain - given_);
  given_ = certain;
  if (certain == all.size()) {
    ids_.erase(ids_.begin(), ids_.begin() + static_cast<std::ptrdiff_t>(old_));
    old_ = ids_.size();
    given_ = tokenizer_.Decode(ids_, skip_special_).size();
  }
  return fresh;
}

}  // namespace trireme
