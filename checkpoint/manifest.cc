#include "checkpoint/manifest.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <optional>
#include <set>
#include <string_view>
#include <system_error>
#include <vector>

#include "checkpoint/run_checkpoints.h"
#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/log.h"
#include "core/io/atomic_file.h"
#include "core/io/crc32c.h"
#include "core/plan/dtype.h"

namespace trireme {
namespace {

std::string Numbered(int rank, const char* ending) {
  char name[32];
  std::snprintf(name, sizeof(name), "rank-%05d%s", rank, ending);
  return name;
}

// The manifest's last field, crc32c: its tag (number 15, four bytes) and the value, little-endian.
constexpr char kDigestTag = 15 << 3 | 5;
constexpr size_t kDigestBytes = 5;

std::string DigestField(const std::string& body) {
  const uint32_t crc = Crc32c(body.data(), body.size());
  std::string field(1, kDigestTag);
  for (int shift = 0; shift < 32; shift += 8) field += static_cast<char>(crc >> shift & 255);
  return field;
}

// Read from the first bytes: the field comes first, and after a damaged length a parser may see it again.
uint32_t FormatOf(const std::string& text) {
  constexpr char kFormatTag = 1 << 3;
  return text.size() >= 2 && text[0] == kFormatTag && text[1] > 0 ? static_cast<uint32_t>(text[1]) : 0;
}

void CheckDigest(const std::string& text, const std::filesystem::path& file) {
  const size_t body = text.size() - std::min(text.size(), kDigestBytes);
  if (text.substr(body) == DigestField(text.substr(0, body))) return;
  throw InputError(file.string(),
                   ": does not match its digest; the manifest is damaged; resume from another checkpoint");
}

// Every rank reads it, some several times: rank 0 warns once.
void WarnOfNoDigest(const std::filesystem::path& file) {
  static std::mutex mutex;
  static std::set<std::string> warned;
  const std::string rank = LogRankPrefix();
  const std::lock_guard lock(mutex);
  if ((!rank.empty() && rank != "[rank 0] ") || !warned.insert(file.string()).second) return;
  TRIREME_LOG(WARNING) << file.string() << ": format 1 has no digest over the manifest, so damage to it may "
                       << "go undetected; newly written checkpoints have one";
}

void CheckStep(const checkpoint::Manifest& manifest, const std::filesystem::path& directory) {
  const std::filesystem::path plain = directory.has_filename() ? directory : directory.parent_path();
  const std::optional<int64_t> named = StepOfName(plain.filename().string());
  if (!named || !manifest.has_progress() || manifest.progress().step() == *named) return;
  throw InputError(directory.string(), ": its manifest has step ", manifest.progress().step(), ", its name step ",
                   *named, "; rename it back, or resume from another checkpoint");
}

void CheckKeysDiffer(const checkpoint::Manifest& manifest, const std::string& where) {
  std::set<std::string_view> keys;
  for (const checkpoint::Tensor& tensor : manifest.tensors()) {
    if (!keys.insert(tensor.key()).second) throw InputError(where, ": has the tensor '", tensor.key(), "' twice");
  }
}

void CheckFiles(const checkpoint::Manifest& manifest, const std::filesystem::path& directory) {
  for (const checkpoint::File& file : manifest.files()) {
    const std::filesystem::path path = directory / file.name();
    if (file.name().find('/') != std::string::npos) {
      throw InputError((directory / kManifestFile).string(), ": lists a file outside its directory: ", file.name());
    }
    std::error_code error;
    const uint64_t bytes = std::filesystem::file_size(path, error);
    if (error) {
      throw InputError(path.string(), ": a file of the checkpoint is missing: ", error.message(),
                       "; copy it back or resume from another checkpoint");
    }
    if (bytes != file.bytes()) {
      throw InputError(path.string(), ": has ", bytes, " bytes; the manifest lists ", file.bytes(),
                       "; the file is damaged; resume from another checkpoint");
    }
  }
}

void CheckPieces(const checkpoint::Tensor& tensor, const checkpoint::Manifest& manifest, const std::string& where) {
  int64_t element_bytes = 0;
  try {
    element_bytes = ByteSize(DTypeFromName(tensor.dtype()));
  } catch (const Error& error) {
    throw InputError(where, ": ", tensor.key(), ": ", error.what());
  }
  for (const checkpoint::Piece& piece : tensor.pieces()) {
    const bool known = piece.file() < static_cast<uint32_t>(manifest.files_size());
    const uint64_t file_bytes = known ? manifest.files(static_cast<int>(piece.file())).bytes() : 0;
    const auto bytes = static_cast<uint64_t>(BoxOf(piece).elements() * element_bytes);
    if (!known || bytes > file_bytes || piece.byte_offset() > file_bytes - bytes) {
      throw InputError(where, ": ", tensor.key(), ": a piece is outside its file");
    }
  }
}

[[noreturn]] void RefusePieces(const checkpoint::Tensor& tensor, const std::string& where, const std::string& why) {
  throw InputError(where, ": ", tensor.key(), " ", ShapeText(ShapeOf(tensor)), " ", why);
}

// Larger than any file: a product of such sizes would overflow.
void CheckShape(const checkpoint::Tensor& tensor, const std::string& where) {
  constexpr int64_t kMostElements = int64_t{1} << 50;
  int64_t elements = 1;
  for (const int64_t size : tensor.shape()) {
    if (size < 0 || __builtin_mul_overflow(elements, size, &elements) || elements > kMostElements) {
      RefusePieces(tensor, where, "has an impossible shape");
    }
  }
}

}  // namespace

std::string RankFile(int rank) { return Numbered(rank, ".h5"); }
std::string RankManifest(int rank) { return Numbered(rank, ".pb"); }

Box BoxOf(const checkpoint::Piece& piece) {
  return {{piece.offset().begin(), piece.offset().end()}, {piece.extent().begin(), piece.extent().end()}};
}

Shape ShapeOf(const checkpoint::Tensor& tensor) { return {tensor.shape().begin(), tensor.shape().end()}; }

std::string DatasetOf(const std::string& key, const Box& box) { return "/" + key + ToText(box); }

std::vector<ByteRange> PiecesIn(const checkpoint::Manifest& manifest, uint32_t file) {
  std::vector<ByteRange> ranges;
  for (const checkpoint::Tensor& tensor : manifest.tensors()) {
    const int64_t element_bytes = ByteSize(DTypeFromName(tensor.dtype()));
    for (const checkpoint::Piece& piece : tensor.pieces()) {
      if (piece.file() != file) continue;
      const auto bytes = static_cast<uint64_t>(BoxOf(piece).elements() * element_bytes);
      if (bytes > 0) ranges.push_back({piece.byte_offset(), piece.byte_offset() + bytes});
    }
  }
  return ranges;
}

bool IsCheckpoint(const std::filesystem::path& directory) {
  std::error_code ignored;
  return std::filesystem::is_regular_file(directory / kManifestFile, ignored);
}

checkpoint::Manifest ParseManifestFile(const std::filesystem::path& file) {
  checkpoint::Manifest manifest;
  const std::string text = ReadTextFile(file.string());
  if (!manifest.ParseFromString(text) || manifest.format() != FormatOf(text)) {
    throw InputError(file.string(), ": is not a checkpoint's manifest, or is damaged");
  }
  if (manifest.format() == 0 || manifest.format() > kFormat) {
    throw InputError(file.string(), ": has format ", manifest.format(), ", written by ", manifest.writer(),
                     "; this program reads formats 1 to ", kFormat, "; use a newer one");
  }
  if (manifest.format() >= kFirstDigested) CheckDigest(text, file);
  return manifest;
}

void CheckCovered(const checkpoint::Tensor& tensor, const std::string& where) {
  CheckShape(tensor, where);
  const Shape shape = ShapeOf(tensor);
  std::vector<Box> boxes;
  int64_t elements = 0;
  for (const checkpoint::Piece& piece : tensor.pieces()) {
    boxes.push_back(BoxOf(piece));
    const Box& box = boxes.back();
    bool inside = box.offset.size() == shape.size() && box.extent.size() == shape.size();
    for (size_t dim = 0; inside && dim < shape.size(); ++dim) {
      inside = box.offset[dim] >= 0 && box.extent[dim] >= 0 && box.extent[dim] <= shape[dim] &&
               box.offset[dim] <= shape[dim] - box.extent[dim];
    }
    if (!inside) {
      RefusePieces(tensor, where,
                   "has a piece " + ShapeText(box.extent) + " at " + ShapeText(box.offset) + ", outside the tensor");
    }
    elements += box.elements();
  }
  if (elements != Elements(shape)) {
    RefusePieces(tensor, where, Concat("has ", elements, " elements in its pieces; wanted ", Elements(shape)));
  }
  if (shape.empty()) return;
  // Pieces can overlap only if they overlap along the first dim.
  std::sort(boxes.begin(), boxes.end(), [](const Box& a, const Box& b) { return a.offset < b.offset; });
  for (size_t i = 0; i < boxes.size(); ++i) {
    for (size_t j = i + 1; j < boxes.size() && boxes[j].offset[0] < boxes[i].offset[0] + boxes[i].extent[0]; ++j) {
      if (Intersect(boxes[i], boxes[j])) {
        RefusePieces(tensor, where, "has pieces that overlap: " + ToText(boxes[i]) + " and " + ToText(boxes[j]));
      }
    }
  }
}

checkpoint::Manifest ReadManifest(const std::filesystem::path& directory) {
  const std::filesystem::path file = directory / kManifestFile;
  checkpoint::Manifest manifest = ParseManifestFile(file);
  if (manifest.format() < kFirstDigested) WarnOfNoDigest(file);
  CheckStep(manifest, directory);
  CheckKeysDiffer(manifest, file.string());
  CheckFiles(manifest, directory);
  for (const checkpoint::Tensor& tensor : manifest.tensors()) {
    CheckCovered(tensor, file.string());
    CheckPieces(tensor, manifest, file.string());
  }
  return manifest;
}

void WriteManifestFile(const std::filesystem::path& path, const checkpoint::Manifest& manifest, bool sync_name) {
  checkpoint::Manifest body = manifest;
  body.clear_crc32c();
  const std::string text = body.SerializeAsString();
  WriteAtomicFile(path, text + DigestField(text), sync_name);
}

}  // namespace trireme
