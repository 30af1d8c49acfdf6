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
constexpr char kNotGzip[] = "is not a gzip file, or is damaged";

class Inflater {
 public:
  Inflater(const MappedFile& file, UnpackedAs as)
      : file_(file), rest_(file.bytes()), guard_(file.path(), file.bytes().size(), as) {
    isal_inflate_init(state_.get());
    state_->crc_flag = ISAL_GZIP;
  }

  std::string All() {
    std::string text;
    while (!rest_.empty()) {
      RefuseOtherFormats();
      Member(text);
      isal_inflate_reset(state_.get());
      state_->crc_flag = ISAL_GZIP;
    }
    return text;
  }

 private:
  // ISA-L asks for more bytes where a short file is none of its own.
  void RefuseOtherFormats() const {
    constexpr std::byte kMagic[] = {std::byte{0x1F}, std::byte{0x8B}};
    const size_t compared = std::min(rest_.size(), std::size(kMagic));
    if (!std::equal(kMagic, kMagic + compared, rest_.begin())) Refuse(kNotGzip);
  }

  // Appends what one member holds; rest_ then begins after it.
  void Member(std::string& text) {
    while (state_->block_state != ISAL_BLOCK_FINISH) {
      const size_t had = text.size(), given = std::min(rest_.size(), kMostAtOnce);
      text.resize(had + std::clamp(had, kLeastRoom, UnpackGuard::kStep));
      state_->next_in = reinterpret_cast<uint8_t*>(const_cast<std::byte*>(rest_.data()));  // read only
      state_->avail_in = static_cast<uint32_t>(given);
      state_->next_out = reinterpret_cast<uint8_t*>(text.data() + had);
      state_->avail_out = static_cast<uint32_t>(text.size() - had);
      const int status = isal_inflate(state_.get());
      text.resize(text.size() - state_->avail_out);
      guard_.Check(text);
      rest_ = rest_.subspan(given - state_->avail_in);
      if (status != ISAL_DECOMP_OK)
        Refuse(status == ISAL_INCORRECT_CHECKSUM ? "is damaged: its digest does not match" : kNotGzip);
      const bool moved = text.size() > had || state_->avail_in < given;
      if (!moved && state_->block_state != ISAL_BLOCK_FINISH) Refuse("is truncated");
    }
  }

  [[noreturn]] void Refuse(const char* why) const {
    throw InputError(file_.path().string(), ": ", why, "; check it with: gzip -t");
  }

  const MappedFile& file_;
  std::span<const std::byte> rest_;
  UnpackGuard guard_;
  const std::unique_ptr<inflate_state> state_ = std::make_unique<inflate_state>();
};

}  // namespace

std::string ReadGzipFile(const std::filesystem::path& path, UnpackedAs as) {
  const MappedFile file(path);
  return Inflater(file, as).All();
}

}  // namespace trireme
