#include "core/io/zstd.h"

#include <zstd.h>
#include <zstd_errors.h>

#include <algorithm>
#include <memory>
#include <span>

#include "core/base/error.h"
#include "core/io/mapped_file.h"

namespace trireme {
namespace {

constexpr size_t kLeastUnpacked = size_t{1} << 20;
constexpr int kLargestWindowLog = 31;  // also of files by zstd --long=31

struct FreeContext {
  void operator()(ZSTD_DCtx* context) const { ZSTD_freeDCtx(context); }
};

std::string WhyNot(size_t status) {
  switch (ZSTD_getErrorCode(status)) {
    case ZSTD_error_prefix_unknown:
      return "is not a zstd file, or has other bytes after its frames";
    case ZSTD_error_checksum_wrong:
      return "is damaged: its digest does not match";
    case ZSTD_error_dictionary_wrong:
      return "was compressed with a dictionary, which is unsupported; compress it again without one";
    default:
      return Concat("is damaged (", ZSTD_getErrorName(status), ")");
  }
}

[[noreturn]] void RefuseZstd(const std::filesystem::path& path, const std::string& why) {
  throw InputError(path.string(), ": ", why, "; check it with: zstd -t");
}

}  // namespace

std::string ReadZstdFile(const std::filesystem::path& path, UnpackedAs as) {
  const MappedFile file(path);
  const std::unique_ptr<ZSTD_DCtx, FreeContext> context(ZSTD_createDCtx());
  if (!context || ZSTD_isError(ZSTD_DCtx_setParameter(context.get(), ZSTD_d_windowLogMax, kLargestWindowLog))) {
    throw RuntimeError("zstd cannot be initialised; is memory exhausted?");
  }
  ZSTD_inBuffer in{file.bytes().data(), file.bytes().size(), 0};
  std::string text;
  UnpackGuard guard(path, file.bytes().size(), as);
  size_t status = in.size == 0 ? 1 : 0;  // 0 at the end of a frame
  while (in.pos < in.size || status != 0) {
    const size_t had = text.size(), read = in.pos;
    text.resize(had + std::clamp(had, kLeastUnpacked, UnpackGuard::kStep));
    ZSTD_outBuffer out{text.data() + had, text.size() - had, 0};
    status = ZSTD_decompressStream(context.get(), &out, &in);
    if (ZSTD_isError(status)) RefuseZstd(path, WhyNot(status));
    text.resize(had + out.pos);
    guard.Check(text);
    if (in.pos == read && out.pos == 0 && status != 0) RefuseZstd(path, "is truncated");
  }
  return text;
}

}  // namespace trireme
