#include "core/io/file_digest.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/io/crc32c.h"

namespace trireme {
namespace {

constexpr size_t kBlock = size_t{1} << 20;

class Digester {
 public:
  explicit Digester(const std::filesystem::path& file) : path_(file), fd_(OpenInput(file)), block_(kBlock) {}
  ~Digester() { close(fd_); }
  Digester(const Digester&) = delete;
  Digester& operator=(const Digester&) = delete;

  uint64_t bytes() const {
    struct stat status{};
    if (fstat(fd_, &status) != 0) Fail(std::strerror(errno));
    return static_cast<uint64_t>(status.st_size);
  }

  void Add(uint64_t begin, uint64_t end) {
    while (begin < end) {
      const ssize_t got = pread(fd_, block_.data(), std::min<uint64_t>(kBlock, end - begin), static_cast<off_t>(begin));
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) Fail(got == 0 ? "unexpected end of file" : std::strerror(errno));
      crc_ = Crc32c(block_.data(), static_cast<size_t>(got), crc_);
      begin += static_cast<uint64_t>(got);
    }
  }

  uint32_t crc() const { return crc_; }

 private:
  [[noreturn]] void Fail(const char* why) const { throw RuntimeError(path_.string(), ": cannot be read: ", why); }

  const std::filesystem::path path_;
  const int fd_;
  std::vector<std::byte> block_;
  uint32_t crc_ = 0;
};

}  // namespace

uint32_t DigestOutside(const std::filesystem::path& file, std::vector<ByteRange> covered) {
  std::sort(covered.begin(), covered.end(), [](const ByteRange& a, const ByteRange& b) { return a.begin < b.begin; });
  Digester digester(file);
  uint64_t done = 0;
  for (const ByteRange& range : covered) {
    digester.Add(done, range.begin);
    done = std::max(done, range.end);
  }
  digester.Add(done, digester.bytes());
  return digester.crc();
}

}  // namespace trireme
