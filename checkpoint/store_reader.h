// StoreReader: a complete checkpoint, read by tensor and box, whatever the layout that wrote it. Reads only
// the bytes that are asked for; what it reads whole it holds against its digest at once, and Verify does so
// for the rest. Not for several threads.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "checkpoint/elements.h"
#include "checkpoint/file_digest.h"
#include "checkpoint/manifest.pb.h"
#include "core/plan/box.h"

namespace trireme {

class StoreReader {
 public:
  // Refuses what is not complete; manifest.h says how.
  explicit StoreReader(const std::filesystem::path& directory);
  ~StoreReader();
  StoreReader(const StoreReader&) = delete;
  StoreReader& operator=(const StoreReader&) = delete;

  const std::filesystem::path& path() const { return directory_; }
  const checkpoint::Manifest& manifest() const { return manifest_; }
  const checkpoint::Tensor* FindOrNull(const std::string& key) const;
  const checkpoint::Tensor& Find(const std::string& key) const;  // refuses, with the nearest key

  // A box of the tensor to where `target` says, converted to its type.
  void Read(const checkpoint::Tensor& tensor, const Box& box, const Place& target);
  // The whole tensor, row-major, in its own type.
  void ReadWhole(const checkpoint::Tensor& tensor, void* target);

  // Holds all pieces against their digests that lie in this share's files and were not read whole so far.
  // Shares are numbered from 0; with as many shares as wrote the checkpoint each has the file of its own
  // number.
  void Verify(int share = 0, int shares = 1);
  // Holds against their digests what no piece covers: the structure of the tensors' files, the index and all
  // other files. Returns how many files have a digest; format 1 has none.
  int VerifyFiles() const;

 private:
  using Verified = std::vector<bool>;  // by piece

  int Descriptor(uint32_t file);
  std::filesystem::path PathOf(const checkpoint::Piece& piece) const;
  void ReadBytes(const checkpoint::Piece& piece, uint64_t begin, void* target, size_t bytes);
  void ReadPiece(const checkpoint::Tensor& tensor, int piece,
                 void* target);  // whole, and held against its digest
  void ReadPart(const checkpoint::Tensor& tensor, int piece, const Box& common, const Place& target);
  void CheckDigest(const checkpoint::Tensor& tensor, const checkpoint::Piece& piece, uint32_t found) const;
  void CheckFile(const checkpoint::File& file, std::vector<ByteRange> pieces) const;

  std::filesystem::path directory_;
  checkpoint::Manifest manifest_;
  std::map<std::string, const checkpoint::Tensor*> by_key_;
  std::map<const checkpoint::Tensor*, Verified> verified_;
  std::vector<int> descriptors_;  // by file; -1: not open
  std::vector<std::byte> scratch_;
};

}  // namespace trireme
