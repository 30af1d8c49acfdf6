// StoreReader: a complete checkpoint, read by tensor and box, whatever the layout that wrote it. Reads only
// the requested bytes; pieces that it reads in full are checked against their digests at once, and Verify
// checks the rest. Not thread-safe.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "checkpoint/elements.h"
#include "checkpoint/manifest.pb.h"
#include "core/io/file_digest.h"
#include "core/plan/box.h"

namespace trireme {

class StoreReader {
 public:
  // Refuses an incomplete checkpoint, as described in manifest.h.
  explicit StoreReader(const std::filesystem::path& directory);
  ~StoreReader();
  StoreReader(const StoreReader&) = delete;
  StoreReader& operator=(const StoreReader&) = delete;

  const std::filesystem::path& path() const { return directory_; }
  const checkpoint::Manifest& manifest() const { return manifest_; }
  const checkpoint::Tensor* FindOrNull(const std::string& key) const;
  const checkpoint::Tensor& Find(const std::string& key) const;  // refuses an unknown key

  // Copies a box of the tensor to `target`, converted to its dtype.
  void Read(const checkpoint::Tensor& tensor, const Box& box, const Place& target);
  // The full tensor, row-major, in its own dtype.
  void ReadWhole(const checkpoint::Tensor& tensor, void* target);

  // Checks all pieces in this share's files that were not read in full so far against their digests. Shares
  // are numbered from 0; with as many shares as ranks that wrote the checkpoint, each has the file of its
  // number.
  void Verify(int share = 0, int shares = 1);
  // Checks what no piece covers against its digest: the structure of the tensors' files, the index and all
  // other files. Returns how many files have a digest; format 1 has none.
  int VerifyFiles() const;

 private:
  using Verified = std::vector<bool>;  // by piece

  int Descriptor(uint32_t file);
  std::filesystem::path PathOf(const checkpoint::Piece& piece) const;
  void ReadBytes(const checkpoint::Piece& piece, uint64_t begin, void* target, size_t bytes);
  void ReadPiece(const checkpoint::Tensor& tensor, int piece,
                 void* target);  // in full, checked against its digest
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
