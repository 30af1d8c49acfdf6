#include "core/io/unpack_guard.h"

#include "core/base/error.h"

namespace trireme {
namespace {

constexpr size_t kAlwaysFine = size_t{1} << 28;
// Records that repeat each other a lot are packed to a fiftieth; gzip can reach a thousandth, zstd far less.
constexpr size_t kLargestRatio = 256;
constexpr size_t kLongestLine = size_t{1} << 28;

}  // namespace

void UnpackGuard::Check(const std::string& text) {
  if (text.size() > kAlwaysFine && text.size() / kLargestRatio > packed_bytes_) {
    throw InputError(path_.string(), ": unpacks to more than ", kLargestRatio, " times its ", packed_bytes_,
                     " bytes; if that is right, unpack it yourself and name the result");
  }
  if (as_ == UnpackedAs::kWhole) return;
  const size_t end = text.rfind('\n');
  if (end != std::string::npos && end >= seen_) line_begin_ = end + 1;
  seen_ = text.size();
  if (text.size() - line_begin_ <= kLongestLine) return;
  throw InputError(path_.string(), ": has a line of more than ", kLongestLine >> 20, " MiB, at byte ", line_begin_,
                   " of its unpacked text; wanted one record per line");
}

}  // namespace trireme
