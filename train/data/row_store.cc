#include "train/data/row_store.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "core/base/error.h"

namespace trireme {
namespace {

constexpr char kMagic[8] = {'T', 'R', 'I', 'R', 'O', 'W', 'S', '1'};

struct Footer {
  int64_t rows = 0;
  int64_t tokens = 0;
  int64_t skipped = 0;
  int64_t highest_id = -1;
  int64_t unused[3] = {};
  char magic[8] = {};
};
static_assert(sizeof(Footer) == 64);

template <typename T>
T Load(const std::byte* place) {
  T value;
  std::memcpy(&value, place, sizeof value);
  return value;
}

}  // namespace

void RowStoreWriter::Add(const StoredRow& row) {
  TRIREME_CHECK(row.ids.size() == row.labels.size()) << row.ids.size() << " and " << row.labels.size();
  file_.Write(row.ids.data(), row.ids.size() * sizeof(int32_t));
  file_.Write(row.labels.data(), row.labels.size() * sizeof(int32_t));
  first_token_.push_back(first_token_.back() + row.ids.size());
  uint32_t trained = 0;
  for (size_t i = 1; i < row.labels.size(); ++i) trained += row.labels[i] != kNotTrained;
  trained_.push_back(trained);
  for (const int32_t id : row.ids) highest_id_ = std::max(highest_id_, id);
  for (const int32_t label : row.labels) highest_id_ = std::max(highest_id_, label);
}

void RowStoreWriter::Commit(int64_t skipped) {
  file_.Write(first_token_.data(), first_token_.size() * sizeof(uint64_t));
  file_.Write(trained_.data(), trained_.size() * sizeof(uint32_t));
  Footer footer{.rows = static_cast<int64_t>(trained_.size()),
                .tokens = static_cast<int64_t>(first_token_.back()),
                .skipped = skipped,
                .highest_id = highest_id_};
  std::memcpy(footer.magic, kMagic, sizeof kMagic);
  file_.Write(&footer, sizeof footer);
  file_.Commit();
}

RowStore::RowStore(const std::filesystem::path& path) : file_(path) {
  const size_t size = file_.bytes().size();
  Footer footer;
  if (size >= sizeof footer) std::memcpy(&footer, file_.bytes().data() + size - sizeof footer, sizeof footer);
  const size_t wanted =
      static_cast<size_t>(8 * footer.tokens + 8 * (footer.rows + 1) + 4 * footer.rows) + sizeof footer;
  if (size < sizeof footer || std::memcmp(footer.magic, kMagic, sizeof kMagic) != 0 || wanted != size) {
    throw InputError(path.string(), ": is no whole file of tokenised rows; remove it and start again");
  }
  rows_ = footer.rows;
  skipped_ = footer.skipped;
  highest_id_ = footer.highest_id;
  tables_ = static_cast<size_t>(8 * footer.tokens);
}

uint64_t RowStore::FirstToken(int64_t row) const {
  return Load<uint64_t>(file_.bytes().data() + tables_ + 8 * row);
}

int64_t RowStore::Length(int64_t row) const {
  return static_cast<int64_t>(FirstToken(row + 1) - FirstToken(row));
}

int64_t RowStore::Trained(int64_t row) const {
  return Load<uint32_t>(file_.bytes().data() + tables_ + 8 * (rows_ + 1) + 4 * row);
}

Row RowStore::Read(int64_t row) const {
  TRIREME_CHECK(row >= 0 && row < rows_) << "row " << row << " of " << rows_;
  const auto length = static_cast<size_t>(Length(row));
  const auto* ids = reinterpret_cast<const int32_t*>(file_.bytes().data() + 8 * FirstToken(row));
  return {{ids, ids + length}, {ids + length, ids + 2 * length}};
}

}  // namespace trireme
