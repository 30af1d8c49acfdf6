#include "checkpoint/store_reader.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iomanip>
#include <sstream>

#include "checkpoint/manifest.h"
#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/nearest.h"
#include "core/io/crc32c.h"

namespace trireme {
namespace {

constexpr size_t kBlock = size_t{1} << 20;  // read, and digested while it is in the cache

std::string Hex(uint32_t value) {
  std::ostringstream text;
  text << std::hex << std::setfill('0') << std::setw(8) << value;
  return text.str();
}

// The offset of `inner`, a box of the same tensor, in a row-major `outer`, in elements.
int64_t OffsetIn(const Box& outer, const Box& inner) {
  const Shape strides = RowMajorStrides(outer.extent);
  int64_t offset = 0;
  for (size_t dim = 0; dim < strides.size(); ++dim) {
    offset += (inner.offset[dim] - outer.offset[dim]) * strides[dim];
  }
  return offset;
}

// The distance between the first and the last element, plus one: how much must be read to get all of them.
int64_t Span(const Shape& extent, const Shape& strides) {
  int64_t last = 0;
  for (size_t dim = 0; dim < extent.size(); ++dim) last += (extent[dim] - 1) * strides[dim];
  return last + 1;
}

}  // namespace

StoreReader::StoreReader(const std::filesystem::path& directory)
    : directory_(directory), manifest_(ReadManifest(directory)), descriptors_(manifest_.files_size(), -1) {
  for (const checkpoint::Tensor& tensor : manifest_.tensors()) {
    by_key_[tensor.key()] = &tensor;
    verified_[&tensor].resize(static_cast<size_t>(tensor.pieces_size()));
  }
}

StoreReader::~StoreReader() {
  for (const int fd : descriptors_) {
    if (fd >= 0) close(fd);
  }
}

const checkpoint::Tensor* StoreReader::FindOrNull(const std::string& key) const {
  const auto found = by_key_.find(key);
  return found == by_key_.end() ? nullptr : found->second;
}

const checkpoint::Tensor& StoreReader::Find(const std::string& key) const {
  const checkpoint::Tensor* tensor = FindOrNull(key);
  if (tensor != nullptr) return *tensor;
  std::vector<std::string> keys;
  for (const auto& [known, unused] : by_key_) keys.push_back(known);
  const auto nearest = Nearest(key, keys);
  throw InputError(directory_.string(), ": has no tensor '", key, "'",
                   nearest ? Concat("; nearest: '", *nearest, "'") : "");
}

std::filesystem::path StoreReader::PathOf(const checkpoint::Piece& piece) const {
  return directory_ / manifest_.files(static_cast<int>(piece.file())).name();
}

int StoreReader::Descriptor(uint32_t file) {
  int& fd = descriptors_.at(file);
  if (fd >= 0) return fd;
  const std::filesystem::path path = directory_ / manifest_.files(static_cast<int>(file)).name();
  return fd = OpenInput(path);
}

void StoreReader::ReadBytes(const checkpoint::Piece& piece, uint64_t begin, void* target, size_t bytes) {
  constexpr off_t kAhead = off_t{16} << 20;  // the disk reads ahead while earlier bytes are digested
  const int fd = Descriptor(piece.file());
  posix_fadvise(fd, static_cast<off_t>(piece.byte_offset() + begin + bytes), kAhead, POSIX_FADV_WILLNEED);
  auto* next = static_cast<char*>(target);
  for (auto place = static_cast<off_t>(piece.byte_offset() + begin); bytes > 0;) {
    const ssize_t got = pread(fd, next, bytes, place);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) {
      throw RuntimeError(PathOf(piece).string(), ": cannot be read at byte ", place, ": ",
                         got < 0 ? std::strerror(errno) : "the file ends there");
    }
    next += got;
    place += got;
    bytes -= static_cast<size_t>(got);
  }
}

void StoreReader::CheckDigest(const checkpoint::Tensor& tensor, const checkpoint::Piece& piece, uint32_t found) const {
  if (found == piece.crc32c()) return;
  throw InputError(PathOf(piece).string(), ": ", tensor.key(), " ", ToText(BoxOf(piece)), ": the bytes have crc32c ",
                   Hex(found), "; the manifest lists ", Hex(piece.crc32c()),
                   "; the file is damaged; resume from another checkpoint");
}

void StoreReader::ReadPiece(const checkpoint::Tensor& tensor, int index, void* target) {
  const checkpoint::Piece& piece = tensor.pieces(index);
  const auto bytes = static_cast<size_t>(BoxOf(piece).elements() * ByteSize(DTypeFromName(tensor.dtype())));
  uint32_t crc = 0;
  for (size_t done = 0; done < bytes; done += kBlock) {
    const size_t block = std::min(kBlock, bytes - done);
    auto* place = static_cast<std::byte*>(target) + done;
    ReadBytes(piece, done, place, block);
    crc = Crc32c(place, block, crc);
  }
  CheckDigest(tensor, piece, crc);
  verified_[&tensor][static_cast<size_t>(index)] = true;
}

void StoreReader::ReadPart(const checkpoint::Tensor& tensor, int index, const Box& common, const Place& target) {
  const checkpoint::Piece& piece = tensor.pieces(index);
  const Box whole = BoxOf(piece);
  const DType dtype = DTypeFromName(tensor.dtype());
  const Shape strides = RowMajorStrides(whole.extent);
  const bool all = common == whole;
  if (all && target.dtype == dtype && IsContiguous(common.extent, target.strides)) {
    return ReadPiece(tensor, index, target.data);
  }
  const auto element = static_cast<size_t>(ByteSize(dtype));
  const auto bytes = static_cast<size_t>(Span(common.extent, strides)) * element;
  if (scratch_.size() < bytes) scratch_.resize(bytes);
  if (all) {
    ReadPiece(tensor, index, scratch_.data());
  } else {
    ReadBytes(piece, static_cast<uint64_t>(OffsetIn(whole, common)) * element, scratch_.data(), bytes);
  }
  CopyBox(common.extent, {dtype, scratch_.data(), strides}, target);
}

void StoreReader::Read(const checkpoint::Tensor& tensor, const Box& box, const Place& target) {
  for (int index = 0; index < tensor.pieces_size(); ++index) {
    const auto common = Intersect(BoxOf(tensor.pieces(index)), box);
    if (!common) continue;
    int64_t offset = 0;
    for (size_t dim = 0; dim < box.offset.size(); ++dim) {
      offset += (common->offset[dim] - box.offset[dim]) * target.strides[dim];
    }
    ReadPart(tensor, index, *common, {target.dtype, Advance(target.data, target.dtype, offset), target.strides});
  }
}

void StoreReader::ReadWhole(const checkpoint::Tensor& tensor, void* target) {
  const Shape shape = ShapeOf(tensor);
  Read(tensor, {Shape(shape.size(), 0), shape}, {DTypeFromName(tensor.dtype()), target, RowMajorStrides(shape)});
}

void StoreReader::CheckFile(const checkpoint::File& file, std::vector<ByteRange> pieces) const {
  const std::filesystem::path path = directory_ / file.name();
  const uint32_t found = DigestOutside(path, std::move(pieces));
  if (found == file.crc32c()) return;
  throw InputError(path.string(), ": has digest ", Hex(found), "; the manifest says ", Hex(file.crc32c()),
                   "; the file is damaged, or was changed after the checkpoint was written");
}

int StoreReader::VerifyFiles() const {
  int verified = 0;
  for (int index = 0; index < manifest_.files_size(); ++index) {
    const checkpoint::File& file = manifest_.files(index);
    if (!file.has_crc32c()) continue;
    CheckFile(file, PiecesIn(manifest_, static_cast<uint32_t>(index)));
    ++verified;
  }
  for (const checkpoint::File& file : manifest_.others()) {
    CheckFile(file, {});
    ++verified;
  }
  return verified;
}

void StoreReader::Verify(int share, int shares) {
  std::vector<std::byte> block(kBlock);
  for (const checkpoint::Tensor& tensor : manifest_.tensors()) {
    Verified& verified = verified_[&tensor];
    const int64_t element = ByteSize(DTypeFromName(tensor.dtype()));
    for (int index = 0; index < tensor.pieces_size(); ++index) {
      const checkpoint::Piece& piece = tensor.pieces(index);
      if (verified[static_cast<size_t>(index)] || static_cast<int>(piece.file()) % shares != share) continue;
      const auto bytes = static_cast<size_t>(BoxOf(piece).elements() * element);
      uint32_t crc = 0;
      for (size_t done = 0; done < bytes; done += kBlock) {
        const size_t part = std::min(kBlock, bytes - done);
        ReadBytes(piece, done, block.data(), part);
        crc = Crc32c(block.data(), part, crc);
      }
      CheckDigest(tensor, piece, crc);
      verified[static_cast<size_t>(index)] = true;
    }
  }
}

}  // namespace trireme
