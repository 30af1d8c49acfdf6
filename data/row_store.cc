#include "data/row_store.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <string>
#include <system_error>

#include "core/base/error.h"
#include "core/io/crc32c.h"

namespace trireme {
namespace {

constexpr char kRowStoreMagic[8] = {'T', 'R', 'I', 'R', 'O', 'W', 'S', '6'};

struct Footer {
  int64_t rows = 0;
  int64_t tokens = 0;
  int64_t skipped = 0;
  int64_t highest_id = -1;
  int64_t weights = 0;
  int64_t words = 0;    // of images
  uint32_t crc32c = 0;  // of the tables, and of this with a zero in its place
  uint32_t unused = 0;
  char magic[8] = {};
};
static_assert(sizeof(Footer) == 64);

template <typename T>
T LoadAt(const std::byte* place) {
  T value;
  std::memcpy(&value, place, sizeof value);
  return value;
}

uint32_t DigestOf(Footer footer, const std::byte* tables, size_t bytes) {
  footer.crc32c = 0;
  return Crc32c(&footer, sizeof footer, Crc32c(tables, bytes));
}

// The file size that the footer implies; nothing if its numbers are impossible.
std::optional<uint64_t> BytesOf(const Footer& footer) {
  constexpr int64_t kMost = int64_t{1} << 50;
  for (const int64_t count : {footer.rows, footer.tokens, footer.weights, footer.words}) {
    if (count < 0 || count > kMost) return std::nullopt;
  }
  const int64_t tables = 24 * (footer.rows + 1) + 12 * footer.rows;
  return static_cast<uint64_t>(8 * footer.tokens + 4 * footer.weights + 4 * footer.words + tables) + sizeof footer;
}

// Each image: its grid's time, height and width, its first token, the bytes of its source, and these, padded to a word.
std::vector<uint32_t> WordsOf(const std::vector<RowImage>& images) {
  std::vector<uint32_t> words;
  for (const RowImage& image : images) {
    for (const int64_t number :
         {image.grid.time, image.grid.height, image.grid.width, image.first, std::ssize(image.source)}) {
      words.push_back(static_cast<uint32_t>(number));
    }
    words.resize(words.size() + (image.source.size() + 3) / 4);
    std::memcpy(&words.back() + 1 - (image.source.size() + 3) / 4, image.source.data(), image.source.size());
  }
  return words;
}

// Documents stand behind the images, in the form of an image whose grid has no time.
constexpr uint32_t kDocumentsMark = 0;

void AddDocuments(const StoredRow& row, std::vector<uint32_t>& words) {
  if (row.starts.empty()) return;
  const auto starts = static_cast<uint32_t>(row.starts.size()), values = static_cast<uint32_t>(row.values.size());
  words.insert(words.end(), {kDocumentsMark, starts, values, 0, 4 * (starts + values)});
  for (const int32_t start : row.starts) words.push_back(static_cast<uint32_t>(start));
  for (const float value : row.values) words.push_back(std::bit_cast<uint32_t>(value));
}

// Where the words of the documents begin, behind their counts; nothing if there are none.
std::optional<size_t> DocumentsAt(const std::vector<uint32_t>& words) {
  for (size_t at = 0; at + 5 <= words.size(); at += 5 + (words[at + 4] + 3) / 4) {
    if (words[at] == kDocumentsMark) return at + 5;
  }
  return std::nullopt;
}

std::vector<int64_t> StartsOf(const std::vector<uint32_t>& words) {
  const auto at = DocumentsAt(words);
  if (!at) return {};
  return {words.begin() + static_cast<int64_t>(*at), words.begin() + static_cast<int64_t>(*at + words[*at - 4])};
}

std::vector<float> ValuesOf(const std::vector<uint32_t>& words) {
  const auto at = DocumentsAt(words);
  if (!at) return {};
  std::vector<float> values;
  const size_t first = *at + words[*at - 4];
  for (size_t i = first; i < first + words[*at - 3]; ++i) values.push_back(std::bit_cast<float>(words[i]));
  return values;
}

// The inverse, of words that match their digest.
std::vector<RowImage> ImagesOf(const std::vector<uint32_t>& words) {
  std::vector<RowImage> images;
  for (size_t at = 0; at + 5 <= words.size() && words[at] != kDocumentsMark;) {
    RowImage image{.source = {}, .grid = {words[at], words[at + 1], words[at + 2]}, .first = words[at + 3]};
    const size_t bytes = words[at + 4];
    at += 5;
    TRIREME_CHECK(bytes <= 4 * (words.size() - at)) << bytes << " bytes of an image's source";
    image.source.assign(reinterpret_cast<const char*>(words.data() + at), bytes);
    at += (bytes + 3) / 4;
    images.push_back(std::move(image));
  }
  return images;
}

}  // namespace

void RowStoreWriter::Add(const StoredRow& row) {
  TRIREME_CHECK(row.ids.size() == row.labels.size()) << row.ids.size() << " and " << row.labels.size();
  TRIREME_CHECK(row.weights.empty() || row.weights.size() == row.ids.size()) << row.weights.size() << " weights";
  uint32_t digest = 0;
  const auto write = [&](const auto& values) {
    const size_t bytes = values.size() * sizeof(values[0]);
    file_.Write(values.data(), bytes);
    digest = Crc32c(values.data(), bytes, digest);
  };
  write(row.ids);
  write(row.labels);
  write(row.weights);
  std::vector<uint32_t> words = WordsOf(row.images);
  AddDocuments(row, words);
  write(words);
  digests_.push_back(digest);
  first_token_.push_back(first_token_.back() + row.ids.size());
  first_weight_.push_back(first_weight_.back() + row.weights.size());
  first_word_.push_back(first_word_.back() + words.size());
  uint32_t trained = 0;
  for (size_t i = 1; i < row.labels.size(); ++i) trained += row.labels[i] != kNotTrained;
  trained_.push_back(trained);
  values_.push_back(row.value);
  for (const int32_t id : row.ids) highest_id_ = std::max(highest_id_, id);
  for (const int32_t label : row.labels) highest_id_ = std::max(highest_id_, label);
}

void RowStoreWriter::Commit(int64_t skipped) {
  std::string tables;
  const auto add = [&](const auto& table) {
    tables.append(reinterpret_cast<const char*>(table.data()), table.size() * sizeof(table[0]));
  };
  add(first_token_);
  add(first_weight_);
  add(first_word_);
  add(trained_);
  add(digests_);
  add(values_);
  Footer footer{.rows = static_cast<int64_t>(trained_.size()),
                .tokens = static_cast<int64_t>(first_token_.back()),
                .skipped = skipped,
                .highest_id = highest_id_,
                .weights = static_cast<int64_t>(first_weight_.back()),
                .words = static_cast<int64_t>(first_word_.back())};
  std::memcpy(footer.magic, kRowStoreMagic, sizeof kRowStoreMagic);
  footer.crc32c = DigestOf(footer, reinterpret_cast<const std::byte*>(tables.data()), tables.size());
  file_.Write(tables.data(), tables.size());
  file_.Write(&footer, sizeof footer);
  file_.Commit();
}

RowStore::RowStore(const std::filesystem::path& path) : file_(path) {
  const size_t size = file_.bytes().size();
  Footer footer;
  if (size >= sizeof footer) std::memcpy(&footer, file_.bytes().data() + size - sizeof footer, sizeof footer);
  const bool known = size >= sizeof footer && std::memcmp(footer.magic, kRowStoreMagic, sizeof kRowStoreMagic) == 0;
  if (!known || BytesOf(footer) != size) {
    throw InputError(path.string(), ": is not a complete file of tokenized rows");
  }
  rows_ = footer.rows;
  skipped_ = footer.skipped;
  highest_id_ = footer.highest_id;
  tables_ = static_cast<size_t>(8 * footer.tokens + 4 * footer.weights + 4 * footer.words);
  const std::byte* tables = file_.bytes().data() + tables_;
  if (footer.crc32c != DigestOf(footer, tables, size - sizeof footer - tables_)) {
    throw InputError(path.string(), ": the tables of its rows do not match their digest");
  }
  CheckTables();
}

// The digest only covers what was written; that rows stay inside the file is checked separately.
void RowStore::CheckTables() const {
  bool rises = FirstToken(0) == 0 && FirstWeight(0) == 0 && FirstWord(0) == 0;
  for (int64_t row = 0; row < rows_ && rises; ++row) {
    const uint64_t tokens = FirstToken(row + 1) - FirstToken(row), weights = FirstWeight(row + 1) - FirstWeight(row);
    rises = FirstToken(row + 1) >= FirstToken(row) && (weights == 0 || weights == tokens) &&
            FirstWord(row + 1) >= FirstWord(row);
  }
  if (rises && 8 * FirstToken(rows_) + 4 * FirstWeight(rows_) + 4 * FirstWord(rows_) == tables_) return;
  throw InputError(file_.path().string(), ": the table of its rows points outside the file");
}

// The table that follows those with so many bytes per row, and the one entry more of the first three.
const std::byte* RowStore::Table(int64_t bytes_per_row) const {
  return file_.bytes().data() + tables_ + 8 * std::min<int64_t>(bytes_per_row / 8, 3) + bytes_per_row * rows_;
}

uint64_t RowStore::FirstToken(int64_t row) const { return LoadAt<uint64_t>(Table(0) + 8 * row); }
uint64_t RowStore::FirstWeight(int64_t row) const { return LoadAt<uint64_t>(Table(8) + 8 * row); }
uint64_t RowStore::FirstWord(int64_t row) const { return LoadAt<uint64_t>(Table(16) + 8 * row); }
int64_t RowStore::Trained(int64_t row) const { return LoadAt<uint32_t>(Table(24) + 4 * row); }
float RowStore::Value(int64_t row) const { return LoadAt<float>(Table(32) + 4 * row); }

int64_t RowStore::Length(int64_t row) const { return static_cast<int64_t>(FirstToken(row + 1) - FirstToken(row)); }

const int32_t* RowStore::Tokens(int64_t row) const {
  return reinterpret_cast<const int32_t*>(file_.bytes().data() + 8 * FirstToken(row) + 4 * FirstWeight(row) +
                                          4 * FirstWord(row));
}

bool RowStore::IsWhole(int64_t row) const {
  const auto words = static_cast<size_t>((HasWeights(row) ? 3 : 2) * Length(row)) + FirstWord(row + 1) - FirstWord(row);
  return LoadAt<uint32_t>(Table(28) + 4 * row) == Crc32c(Tokens(row), 4 * words);
}

std::optional<int64_t> RowStore::FindDamage() const {
  for (int64_t row = 0; row < rows_; ++row) {
    if (!IsWhole(row)) return row;
  }
  return std::nullopt;
}

Row RowStore::Read(int64_t row) const {
  TRIREME_CHECK(row >= 0 && row < rows_) << "row " << row << " of " << rows_;
  if (!IsWhole(row)) {
    std::error_code ignored;
    std::filesystem::remove(file_.path(), ignored);
    throw RuntimeError(file_.path().string(), ": row ", row, " does not match its digest: the tokenized data ",
                       "is damaged and was removed from the cache; restart to rebuild it. Is the disk healthy?");
  }
  const auto length = static_cast<size_t>(Length(row));
  const int32_t* ids = Tokens(row);
  Row read{{ids, ids + length}, {ids + length, ids + 2 * length}};
  if (HasWeights(row)) {
    read.weights.resize(length);
    std::memcpy(read.weights.data(), ids + 2 * length, length * sizeof(float));
  }
  const std::vector<uint32_t> words = Words(row);
  read.images = ImagesOf(words);
  for (const RowImage& image : read.images) read.grids.push_back(image.grid);
  read.starts = StartsOf(words);
  read.values = ValuesOf(words);
  read.samples.assign(read.starts.size(), 0);  // the documents of a row are one sample
  return read;
}

std::vector<uint32_t> RowStore::Words(int64_t row) const {
  const auto* words = reinterpret_cast<const uint32_t*>(Tokens(row) + (HasWeights(row) ? 3 : 2) * Length(row));
  return {words, words + (FirstWord(row + 1) - FirstWord(row))};
}

// Not held against the row's digest: damage is found when the row is read.
RowExtent RowStore::Extent(int64_t row) const {
  RowExtent extent{.documents = {Length(row)}};
  if (FirstWord(row + 1) == FirstWord(row)) return extent;
  const std::vector<uint32_t> words = Words(row);
  for (const RowImage& image : ImagesOf(words)) extent.images.push_back(image.grid);
  const std::vector<int64_t> starts = StartsOf(words);
  if (starts.empty()) return extent;
  extent.documents.clear();
  for (size_t i = 0; i < starts.size(); ++i) {
    extent.documents.push_back((i + 1 < starts.size() ? starts[i + 1] : Length(row)) - starts[i]);
  }
  return extent;
}

}  // namespace trireme
