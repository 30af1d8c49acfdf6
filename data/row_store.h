// RowStore: tokenized rows in one memory-mapped file, so that every process of a host shares its pages and
// touches only the rows it reads. Written once, atomically. Does not interpret the tokens.
//
// The file: for each row its ids, then its labels, as int32, and where labels have weights, those as fp32, and where it
// has images or several documents, these in words of 4 bytes; then the tables: the rows' first tokens, first weights
// and first words of images (uint64, one more than rows each), the rows' trained tokens (uint32), the rows' digests
// (CRC-32C, uint32), the rows' values (fp32: what the data says of an answer); last 64 bytes that say what is there,
// with a digest of themselves and the tables. Opening reads tables and end alone; a row is held against its digest
// whenever it is read, so that a large store is never read for its digests' sake.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <vector>

#include "core/io/atomic_file.h"
#include "core/io/mapped_file.h"
#include "data/rows.h"

namespace trireme {

struct StoredRow {
  std::vector<int32_t> ids;
  std::vector<int32_t> labels;
  std::vector<float> weights = {};  // by label: what it counts in the loss; empty: 1 each
  float value = 0;                  // of an answer: its label, or its pair's margin
  std::vector<RowImage> images = {};
  std::vector<int32_t> starts = {};  // of each document; empty: the row is one
  std::vector<float> values = {};    // what the data says of the documents; only where `starts` are there
};

class RowStoreWriter {
 public:
  explicit RowStoreWriter(const std::filesystem::path& path) : file_(path) {}
  void Add(const StoredRow& row);
  // `skipped`: records skipped for their errors.
  void Commit(int64_t skipped);

 private:
  AtomicFile file_;
  std::vector<uint64_t> first_token_ = {0}, first_weight_ = {0}, first_word_ = {0};
  std::vector<uint32_t> trained_;
  std::vector<uint32_t> digests_;
  std::vector<float> values_;
  int32_t highest_id_ = -1;
};

class RowStore : public RowSource {
 public:
  // Throws an input error if the tables are damaged or the file is not a store.
  explicit RowStore(const std::filesystem::path& path);
  int64_t size() const override { return rows_; }
  int64_t Length(int64_t row) const override;
  int64_t Trained(int64_t row) const override;
  float Value(int64_t row) const;
  // A row that does not match its digest ends the run. The file, which is a cache, is removed first: the next start
  // makes it anew.
  Row Read(int64_t row) const override;
  RowExtent Extent(int64_t row) const override;
  // The first row that does not match its digest, or nothing. Reads everything.
  std::optional<int64_t> FindDamage() const;

  int64_t skipped() const { return skipped_; }
  int64_t highest_id() const { return highest_id_; }
  size_t bytes() const { return file_.bytes().size(); }

 private:
  uint64_t FirstToken(int64_t row) const;
  uint64_t FirstWeight(int64_t row) const;
  uint64_t FirstWord(int64_t row) const;
  bool HasWeights(int64_t row) const { return FirstWeight(row + 1) > FirstWeight(row); }
  const int32_t* Tokens(int64_t row) const;
  std::vector<uint32_t> Words(int64_t row) const;
  const std::byte* Table(int64_t bytes_per_row) const;
  bool IsWhole(int64_t row) const;
  void CheckTables() const;

  MappedFile file_;
  int64_t rows_ = 0;
  int64_t skipped_ = 0;
  int64_t highest_id_ = -1;
  size_t tables_ = 0;  // where the first table begins
};

}  // namespace trireme
