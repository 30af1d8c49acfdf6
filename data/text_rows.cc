#include "data/text_rows.h"

#include <algorithm>
#include <utility>

#include "core/base/error.h"
#include "data/records.h"
#include "data/row_keys.h"
#include "data/text_samples.h"
#include "data/text_tokens.h"

namespace trireme {
namespace {

bool HasLongText(const RowStore& store, int64_t row, int64_t longest) {
  const std::vector<int64_t> lengths = store.Extent(row).documents;
  return std::ranges::any_of(lengths, [&](int64_t length) { return length > longest; });
}

class Texts : public RowSource {
 public:
  Texts(std::shared_ptr<const RowStore> store, int64_t longest) : store_(std::move(store)) {
    for (int64_t row = 0; row < store_->size(); ++row) {
      if (!HasLongText(*store_, row, longest)) rows_.push_back(row);
    }
  }
  int64_t size() const override { return std::ssize(rows_); }
  int64_t Length(int64_t row) const override { return store_->Length(rows_[row]); }
  // No token is predicted; all of them make the vectors, or scores, that are trained.
  int64_t Trained(int64_t row) const override { return Length(row); }
  Row Read(int64_t row) const override { return store_->Read(rows_[row]); }
  RowExtent Extent(int64_t row) const override { return store_->Extent(rows_[row]); }

 private:
  const std::shared_ptr<const RowStore> store_;
  std::vector<int64_t> rows_;
};

}  // namespace

Rows TextRows(std::shared_ptr<const RowStore> store, int64_t longest) {
  return std::make_shared<Texts>(std::move(store), longest);
}

int64_t LongTextRows(const RowStore& store, int64_t longest) {
  int64_t count = 0;
  for (int64_t row = 0; row < store.size(); ++row) count += HasLongText(store, row, longest);
  return count;
}

std::vector<Row> ReadTextRows(const std::string& path, int64_t vocabulary, const Config& config) {
  const StageFacts& facts = FactsOf(config);
  const TextOptions options = TextOptionsOf(config);
  const SampleTokenizer none({.records = facts.records});
  const auto records = OpenRecords(path);
  std::vector<Row> rows;
  for (int64_t i = 0; i < records->size(); ++i) {
    UseRecord(*records, i, [&](Json record) {
      RefuseOtherKeys(record, {"text_ids", "input_ids", "label", "labels", "score", "scores"});
      for (const TextUnit& sample : ReadTexts(std::move(record), {}, facts, options)) {
        if (!sample.is_tokens()) throw InputError("is text; wanted tokens: text_ids, or input_ids and label");
        const StoredRow stored = TokeniseTexts(sample, none, options);
        for (const int32_t id : stored.ids) {
          if (id >= vocabulary) throw InputError("has the token ", id, ", outside the vocabulary of ", vocabulary);
        }
        rows.push_back({.input_ids = {stored.ids.begin(), stored.ids.end()},
                        .labels = {stored.labels.begin(), stored.labels.end()},
                        .starts = {stored.starts.begin(), stored.starts.end()},
                        .samples = std::vector<int64_t>(stored.starts.size(), 0),
                        .values = stored.values});
      }
      return 0;
    });
  }
  if (rows.empty()) throw InputError(path, ": has no rows");
  return rows;
}

}  // namespace trireme
