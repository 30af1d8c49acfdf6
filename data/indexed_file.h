// Reads and writes Megatron's indexed data: PREFIX.bin has the tokens of all sequences and nothing else,
// PREFIX.idx stores where each begins and which sequences form a document. Little-endian, and its tables are
// not aligned. Knows nothing of samples; those are in indexed_rows.h.
//
// PREFIX.idx: "MMIDIDX\0\0", version (uint64) 1, element type (uint8), sequences N and bounds D (uint64
// each), then int32[N] tokens of each sequence, int64[N] its first byte in PREFIX.bin, int64[D] the first
// sequence of each document and, last, N.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "core/io/atomic_file.h"
#include "core/io/mapped_file.h"

namespace trireme {

class IndexedFile {
 public:
  // Rejects files that are not such a pair, are truncated, or do not hold integers.
  explicit IndexedFile(const std::filesystem::path& prefix);

  int64_t sequences() const { return sequences_; }
  int64_t documents() const { return documents_; }
  int64_t SequenceLength(int64_t sequence) const;
  int64_t FirstSequence(int64_t document) const;  // for `documents()` returns sequences()
  int64_t DocumentLength(int64_t document) const;
  // Tokens [begin, begin + count) of a document, appended to `out`.
  void Append(int64_t document, int64_t begin, int64_t count, std::vector<int64_t>& out) const;

 private:
  int64_t Token(const std::byte* place) const;

  MappedFile index_;
  MappedFile tokens_;
  int kind_ = 0;
  size_t width_ = 0;  // bytes of a token
  int64_t sequences_ = 0;
  int64_t documents_ = 0;
};

class IndexedWriter {
 public:
  // Tokens take two bytes if the vocabulary has fewer than 65500, otherwise four, as in Megatron's
  // tools.
  IndexedWriter(const std::filesystem::path& prefix, int64_t vocabulary);
  // A document of one sequence.
  void Add(std::span<const int64_t> ids);
  void Commit();

 private:
  AtomicFile tokens_;
  AtomicFile index_;
  const bool narrow_;
  std::vector<int32_t> lengths_;
  std::vector<int64_t> begins_;
  int64_t bytes_ = 0;
};

}  // namespace trireme
