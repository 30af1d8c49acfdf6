#include "checkpoint/manifest.h"

#include <algorithm>
#include <cstdio>
#include <system_error>
#include <vector>

#include "checkpoint/whole_file.h"
#include "core/base/error.h"
#include "core/base/file.h"
#include "core/plan/dtype.h"

namespace trireme {
namespace {

std::string Numbered(int rank, const char* ending) {
  char name[32];
  std::snprintf(name, sizeof(name), "rank-%05d%s", rank, ending);
  return name;
}

void CheckFiles(const checkpoint::Manifest& manifest, const std::filesystem::path& directory) {
  for (const checkpoint::File& file : manifest.files()) {
    const std::filesystem::path path = directory / file.name();
    std::error_code error;
    const uint64_t bytes = std::filesystem::file_size(path, error);
    if (error) {
      throw InputError(path.string(), ": a file of the checkpoint is missing: ", error.message(),
                       "; copy it back or go on from another checkpoint");
    }
    if (bytes != file.bytes()) {
      throw InputError(path.string(), ": has ", bytes, " bytes, the manifest says ", file.bytes(),
                       "; the file is damaged; go on from another checkpoint");
    }
  }
}

void CheckPieces(const checkpoint::Tensor& tensor, const checkpoint::Manifest& manifest,
                 const std::string& where) {
  const int64_t element_bytes = ByteSize(DTypeFromName(tensor.dtype()));
  for (const checkpoint::Piece& piece : tensor.pieces()) {
    const bool known = piece.file() < static_cast<uint32_t>(manifest.files_size());
    const uint64_t file_bytes = known ? manifest.files(static_cast<int>(piece.file())).bytes() : 0;
    const auto bytes = static_cast<uint64_t>(BoxOf(piece).elements() * element_bytes);
    if (!known || bytes > file_bytes || piece.byte_offset() > file_bytes - bytes) {
      throw InputError(where, ": ", tensor.key(), ": a piece lies outside its file");
    }
  }
}

[[noreturn]] void RefusePieces(const checkpoint::Tensor& tensor, const std::string& where,
                               const std::string& why) {
  throw InputError(where, ": ", tensor.key(), " ", ShapeText(ShapeOf(tensor)), " ", why);
}

// Beyond what any file holds a product of sizes would overflow.
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

bool IsCheckpoint(const std::filesystem::path& directory) {
  std::error_code ignored;
  return std::filesystem::is_regular_file(directory / kManifestFile, ignored);
}

checkpoint::Manifest ParseManifestFile(const std::filesystem::path& file) {
  checkpoint::Manifest manifest;
  if (!manifest.ParseFromString(ReadTextFile(file.string()))) {
    throw InputError(file.string(), ": is no manifest of a checkpoint, or is damaged");
  }
  if (manifest.format() == 0 || manifest.format() > kFormat) {
    throw InputError(file.string(), ": has format ", manifest.format(), ", written by ", manifest.writer(),
                     "; this program reads formats 1 to ", kFormat, "; use a newer one");
  }
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
      RefusePieces(
          tensor, where,
          "has a piece " + ShapeText(box.extent) + " at " + ShapeText(box.offset) + ", outside of it");
    }
    elements += box.elements();
  }
  if (elements != Elements(shape)) {
    RefusePieces(tensor, where,
                 Concat("has ", elements, " elements in its pieces; wanted ", Elements(shape)));
  }
  if (shape.empty()) return;
  // Only neighbours along the first dim can overlap.
  std::sort(boxes.begin(), boxes.end(), [](const Box& a, const Box& b) { return a.offset < b.offset; });
  for (size_t i = 0; i < boxes.size(); ++i) {
    for (size_t j = i + 1; j < boxes.size() && boxes[j].offset[0] < boxes[i].offset[0] + boxes[i].extent[0];
         ++j) {
      if (Intersect(boxes[i], boxes[j])) {
        RefusePieces(tensor, where,
                     "has pieces that overlap: " + ToText(boxes[i]) + " and " + ToText(boxes[j]));
      }
    }
  }
}

checkpoint::Manifest ReadManifest(const std::filesystem::path& directory) {
  const std::filesystem::path file = directory / kManifestFile;
  checkpoint::Manifest manifest = ParseManifestFile(file);
  CheckFiles(manifest, directory);
  for (const checkpoint::Tensor& tensor : manifest.tensors()) {
    CheckCovered(tensor, file.string());
    CheckPieces(tensor, manifest, file.string());
  }
  return manifest;
}

void WriteManifestFile(const std::filesystem::path& path, const checkpoint::Manifest& manifest,
                       bool sync_name) {
  WriteWholeFile(path, manifest.SerializeAsString(), sync_name);
}

}  // namespace trireme
