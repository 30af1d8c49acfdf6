#include "core/io/gzip.h"

#include <isa-l/igzip_lib.h>

#include <algorithm>
#include <memory>
#include <span>

#include "core/base/error.h"
#include "core/io/mapped_file.h"

namespace trireme {
namespace {

constexpr size_t kMostAtOnce = size_t{1} << 30;  // ISA-L counts in 32 bits
constexpr size_t kLeastRoom = size_t{1} << 20;

class Inflater {
 public:
  explicit Inflater(const MappedFile& file) : file_(file), rest_(file.bytes()) {
    isal_inflate_init(state_.get());
    state_->crc_flag = ISAL_GZIP;
  }

  std::string All() {
    std::string text;
    while (!rest_.empty()) {
      Member(text);
      isal_inflate_reset(state_.get());
      state_->crc_flag = ISAL_GZIP;
    }
    return text;
  }

 private:
  // Appends what one member holds; rest_ then begins after it.
  void Member(std::string& text) {
    while (state_->block_state != ISAL_BLOCK_FINISH) {
      const size_t had = text.size(), given = std::min(rest_.size(), kMostAtOnce);
      text.resize(had + std::clamp(had, kLeastRoom, kMostAtOnce));
      state_->next_in = reinterpret_cast<uint8_t*>(const_cast<std::byte*>(rest_.data()));  // read only
      state_->avail_in = static_cast<uint32_t>(given);
      state_->next_out = reinterpret_cast<uint8_t*>(text.data() + had);
      state_->avail_out = static_cast<uint32_t>(text.size() - had);
      const int status = isal_inflate(state_.get());
      text.resize(text.size() - state_->avail_out);
      rest_ = rest_.subspan(given - state_->avail_in);
      if (status != ISAL_DECOMP_OK)
        Refuse(status == ISAL_INCORRECT_CHECKSUM ? "is damaged: its digest does not match"
                                                 : "is not a gzip file, or is damaged");
      const bool moved = text.size() > had || state_->avail_in < given;
      if (!moved && state_->block_state != ISAL_BLOCK_FINISH) Refuse("is truncated");
    }
  }

  [[noreturn]] void Refuse(const char* why) const {
    throw InputError(file_.path().string(), ": ", why, "; check it with: gzip -t");
  }

  const MappedFile& file_;
  std::span<const std::byte> rest_;
  const std::unique_ptr<inflate_state> state_ = std::make_unique<inflate_state>();
};

}  // namespace

std::string ReadGzipFile(const std::filesystem::path& path) {
  const MappedFile file(path);
  return Inflater(file).All();
}

}  // namespace trireme
