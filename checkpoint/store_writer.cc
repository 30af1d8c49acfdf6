#include "checkpoint/store_writer.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <set>
#include <system_error>
#include <thread>
#include <utility>

#include "checkpoint/elements.h"
#include "checkpoint/hdf5_file.h"
#include "checkpoint/manifest.h"
#include "core/base/error.h"
#include "core/io/crc32c.h"
#include "core/io/file_digest.h"
#include "core/io/file_system.h"

namespace trireme {
namespace {

// Row-major in a separate buffer, for pieces that are not contiguous in memory.
const void* Packed(const PieceToWrite& piece, std::vector<std::byte>& scratch) {
  if (IsContiguous(piece.box.extent, piece.strides)) return piece.data;
  scratch.resize(static_cast<size_t>(piece.box.elements() * ByteSize(piece.dtype)));
  CopyBox(piece.box.extent, {piece.dtype, piece.data, piece.strides},
          {piece.dtype, scratch.data(), RowMajorStrides(piece.box.extent)});
  return scratch.data();
}

void Describe(const PieceToWrite& piece, uint64_t byte_offset, uint32_t crc, checkpoint::Tensor& tensor) {
  tensor.set_key(piece.key);
  tensor.set_dtype(std::string(Name(piece.dtype)));
  tensor.mutable_shape()->Assign(piece.shape.begin(), piece.shape.end());
  checkpoint::Piece& described = *tensor.add_pieces();
  described.mutable_offset()->Assign(piece.box.offset.begin(), piece.box.offset.end());
  described.mutable_extent()->Assign(piece.box.extent.begin(), piece.box.extent.end());
  described.set_byte_offset(byte_offset);
  described.set_crc32c(crc);
}

// Merges all ranks' lists: tensors in order of first appearance, pieces numbered by their file.
void MergeLists(const std::filesystem::path& part, int ranks, checkpoint::Manifest& manifest) {
  std::map<std::string, int> positions;
  for (int rank = 0; rank < ranks; ++rank) {
    const checkpoint::Manifest list = ParseManifestFile(part / RankManifest(rank));
    *manifest.add_files() = list.files(0);
    for (const checkpoint::Tensor& tensor : list.tensors()) {
      const auto [place, is_new] = positions.emplace(tensor.key(), manifest.tensors_size());
      if (is_new) {
        *manifest.add_tensors() = tensor;
        manifest.mutable_tensors(place->second)->clear_pieces();
      }
      checkpoint::Tensor& merged = *manifest.mutable_tensors(place->second);
      TRIREME_CHECK(merged.dtype() == tensor.dtype() && ShapeOf(merged) == ShapeOf(tensor))
          << tensor.key() << " differs between ranks";
      for (checkpoint::Piece piece : tensor.pieces()) {
        piece.set_file(static_cast<uint32_t>(rank));
        *merged.add_pieces() = std::move(piece);
      }
    }
  }
}

void ShowWhole(const checkpoint::Tensor& tensor, const std::string& name, const checkpoint::Manifest& manifest,
               Hdf5File& index) {
  std::vector<VirtualPiece> pieces;
  for (const checkpoint::Piece& piece : tensor.pieces()) {
    if (BoxOf(piece).elements() == 0) continue;
    pieces.push_back(
        {manifest.files(static_cast<int>(piece.file())).name(), DatasetOf(tensor.key(), BoxOf(piece)), BoxOf(piece)});
  }
  index.WriteVirtual(name, DTypeFromName(tensor.dtype()), ShapeOf(tensor), pieces);
}

// "/weights/NAME" and "/optimizer/STATE/NAME". If the weights are fp32, they are also the masters.
void WriteIndex(const std::filesystem::path& file, const checkpoint::Manifest& manifest) {
  std::set<std::string> trained, with_master;  // names that have any state, names that have a master
  for (const checkpoint::Tensor& tensor : manifest.tensors()) {
    const std::string& key = tensor.key();
    const std::string name = key.substr(key.find('/') + 1);
    if (!key.starts_with("weights/")) trained.insert(name);
    if (key.starts_with("master/")) with_master.insert(name);
  }
  Hdf5File index(file);
  index.WriteAttribute("writer", manifest.writer());
  for (const checkpoint::Tensor& tensor : manifest.tensors()) {
    const std::string& key = tensor.key();
    const bool is_weight = key.starts_with("weights/");
    ShowWhole(tensor, (is_weight ? "/" : "/optimizer/") + key, manifest, index);
    const std::string name = key.substr(key.find('/') + 1);
    if (is_weight && trained.contains(name) && !with_master.contains(name)) {
      ShowWhole(tensor, "/optimizer/master/" + name, manifest, index);
    }
  }
  index.Close();
}

checkpoint::File Described(const std::filesystem::path& file, std::vector<ByteRange> pieces) {
  checkpoint::File described;
  described.set_name(file.filename().string());
  described.set_bytes(std::filesystem::file_size(file));
  described.set_crc32c(DigestOutside(file, std::move(pieces)));
  return described;
}

// The index and the carried files: all files without tensors.
void DescribeOthers(const std::filesystem::path& part, checkpoint::Manifest& manifest) {
  std::vector<std::filesystem::path> others;
  for (const auto& entry : std::filesystem::directory_iterator(part)) {
    const bool has_tensors =
        std::any_of(manifest.files().begin(), manifest.files().end(),
                    [&](const checkpoint::File& file) { return file.name() == entry.path().filename().string(); });
    if (entry.is_regular_file() && !has_tensors) others.push_back(entry.path());
  }
  std::sort(others.begin(), others.end());
  for (const std::filesystem::path& file : others) *manifest.add_others() = Described(file, {});
}

}  // namespace

std::filesystem::path PartOf(const std::filesystem::path& directory) { return directory.string() + ".part"; }

void BeginAside(const std::filesystem::path& directory, bool replace) {
  std::error_code ignored;
  if (!replace && std::filesystem::exists(directory, ignored)) {
    throw InputError(directory.string(), " already exists; move it away or choose another directory");
  }
  RemoveAll(PartOf(directory));
  CreateFolder(PartOf(directory));
}

void Publish(const std::filesystem::path& directory) {
  const std::filesystem::path part = PartOf(directory);
  SyncFolder(part);
  std::error_code ignored;
  if (std::filesystem::exists(directory, ignored)) {
    ExchangeAndSync(part, directory);
    RemoveAll(part);
  } else {
    RenameAndSync(part, directory);
  }
}

RankFileWriter::RankFileWriter(const std::filesystem::path& directory, int rank)
    : part_(PartOf(directory)), rank_(rank), file_(part_ / RankFile(rank)) {
  list_.set_format(kFormat);
}

void RankFileWriter::Write(const PieceToWrite& piece) {
  const void* data = Packed(piece, scratch_);
  const auto bytes = static_cast<size_t>(piece.box.elements() * ByteSize(piece.dtype));
  const uint64_t offset = file_.WriteDataset(DatasetOf(piece.key, piece.box), piece.dtype, piece.box.extent, data);
  const auto [place, is_new] = positions_.emplace(piece.key, list_.tensors_size());
  checkpoint::Tensor& tensor = is_new ? *list_.add_tensors() : *list_.mutable_tensors(place->second);
  Describe(piece, offset, Crc32c(data, bytes), tensor);
}

void RankFileWriter::Close() {
  file_.Close();
  *list_.add_files() = Described(part_ / RankFile(rank_), PiecesIn(list_, 0));  // its list has one file
  // Once the list exists, the directory belongs to the committing rank, which may rename it at any moment.
  WriteManifestFile(part_ / RankManifest(rank_), list_, /*sync_name=*/false);
}

bool AwaitRankFiles(const std::filesystem::path& directory, int ranks, const std::function<bool()>& give_up) {
  for (int rank = 0; rank < ranks; ++rank) {
    const std::filesystem::path list = PartOf(directory) / RankManifest(rank);
    std::error_code ignored;
    while (!std::filesystem::exists(list, ignored)) {
      if (give_up()) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  }
  return true;
}

void CommitCheckpoint(const std::filesystem::path& directory, int ranks, checkpoint::Manifest header) {
  const std::filesystem::path part = PartOf(directory);
  header.set_format(kFormat);
  MergeLists(part, ranks, header);
  for (const checkpoint::Tensor& tensor : header.tensors()) CheckCovered(tensor, part.string());
  WriteIndex(part / kIndexFile, header);
  for (int rank = 0; rank < ranks; ++rank) RemoveAll(part / RankManifest(rank));
  DescribeOthers(part, header);
  WriteManifestFile(part / kManifestFile, header);
  Publish(directory);
}

}  // namespace trireme
