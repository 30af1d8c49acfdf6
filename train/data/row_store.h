// RowStore: tokenised rows in one file that is mapped, so that every process of a host shares its pages and
// touches only the rows it reads. Written once, whole or not at all. Knows nothing of what the tokens mean.
//
// The file: for each row its ids, then its labels, as int32; then the rows' first tokens (uint64, one more
// than rows), the rows' trained tokens (uint32), and 64 bytes that say what is there.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "checkpoint/mapped_file.h"
#include "checkpoint/whole_file.h"
#include "train/data/rows.h"

namespace trireme {

struct StoredRow {
  std::vector<int32_t> ids;
  std::vector<int32_t> labels;
};

class RowStoreWriter {
 public:
  explicit RowStoreWriter(const std::filesystem::path& path) : file_(path) {}
  void Add(const StoredRow& row);
  // `skipped`: records that were left out for their errors.
  void Commit(int64_t skipped);

 private:
  WholeFile file_;
  std::vector<uint64_t> first_token_ = {0};
  std::vector<uint32_t> trained_;
  int32_t highest_id_ = -1;
};

class RowStore : public RowSource {
 public:
  explicit RowStore(const std::filesystem::path& path);
  int64_t size() const override { return rows_; }
  int64_t Length(int64_t row) const override;
  int64_t Trained(int64_t row) const override;
  Row Read(int64_t row) const override;

  int64_t skipped() const { return skipped_; }
  int64_t highest_id() const { return highest_id_; }

 private:
  uint64_t FirstToken(int64_t row) const;

  MappedFile file_;
  int64_t rows_ = 0;
  int64_t skipped_ = 0;
  int64_t highest_id_ = -1;
  size_t tables_ = 0;  // where the first table begins
};

}  // namespace trireme
