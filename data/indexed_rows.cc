#include "data/indexed_rows.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/base/error.h"
#include "core/base/random.h"

namespace trireme {
namespace {

class IndexedRows : public RowSource {
 public:
  IndexedRows(const std::filesystem::path& prefix, const IndexedOptions& options)
      : name_(prefix.string() + ".bin"), file_(prefix), options_(options) {
    const DocumentRange range = PartOfDocuments(file_.documents(), options.split, options.part);
    order_.resize(range.last - range.first);
    std::iota(order_.begin(), order_.end(), range.first);
    if (options.shuffle) Shuffle();
    begins_.push_back(0);
    for (const int64_t document : order_) begins_.push_back(begins_.back() + file_.DocumentLength(document));
    if (size() == 0) {
      throw InputError(prefix.string(), ".bin: its part of ", order_.size(), " documents has ", begins_.back(),
                       " tokens, which fill no row of data.max_length = ", options.length);
    }
    Read(0);
  }

  int64_t size() const override { return std::max<int64_t>(begins_.back() - 1, 0) / (options_.length - 1); }
  int64_t Length(int64_t) const override { return options_.length; }
  int64_t Trained(int64_t row) const override {
    return options_.length - (options_.isolate ? static_cast<int64_t>(Starts(row).size()) : 1);
  }

  Row Read(int64_t row) const override {
    Row result;
    const int64_t begin = row * (options_.length - 1), end = begin + options_.length;
    for (size_t i = DocumentAt(begin); i < order_.size() && begins_[i] < end; ++i) {
      const int64_t from = std::max(begin, begins_[i]), to = std::min(end, begins_[i + 1]);
      file_.Append(order_[i], from - begins_[i], to - from, result.input_ids);
    }
    CheckIds(result.input_ids);
    result.labels = result.input_ids;
    if (!options_.isolate) return result;
    result.starts = Starts(row);
    for (const int64_t start : result.starts) result.labels[start] = kNotTrained;
    return result;
  }

 private:
  void Shuffle() {
    const RandomStream random(options_.seed, "order of documents");
    for (size_t i = order_.size(); i-- > 1;) std::swap(order_[i], order_[random.Below(i + 1, i)]);
  }

  void CheckIds(const std::vector<int64_t>& ids) const {
    const auto [lowest, highest_at] = std::minmax_element(ids.begin(), ids.end());
    if (*lowest < 0) throw InputError(name_, ": has the token ", *lowest, "; wanted ids of 0 or more");
    const int64_t highest = *highest_at;
    if (options_.vocabulary == 0 || highest < options_.vocabulary) return;
    throw InputError(name_, ": has the token ", highest, "; the model's vocabulary of ", options_.vocabulary,
                     " is smaller. Was it tokenized for another model?");
  }

  // Which of the ordered documents the token at that position belongs to; empty documents have none.
  size_t DocumentAt(int64_t place) const {
    return static_cast<size_t>(std::upper_bound(begins_.begin(), begins_.end(), place) - begins_.begin()) - 1;
  }

  std::vector<int64_t> Starts(int64_t row) const {
    const int64_t begin = row * (options_.length - 1), end = begin + options_.length;
    std::vector<int64_t> starts = {0};
    for (size_t i = DocumentAt(begin) + 1; i < order_.size() && begins_[i] < end; ++i) {
      if (begins_[i + 1] > begins_[i]) starts.push_back(begins_[i] - begin);
    }
    return starts;
  }

  const std::string name_;
  const IndexedFile file_;
  const IndexedOptions options_;
  std::vector<int64_t> order_;
  std::vector<int64_t> begins_;  // of the ordered documents in the long text, and its end
};

}  // namespace

DocumentRange PartOfDocuments(int64_t documents, const std::vector<int>& split, int part) {
  if (split.empty()) return part == 0 ? DocumentRange{0, documents} : DocumentRange{0, 0};
  const double sum = std::accumulate(split.begin(), split.end(), 0.0);
  if (!(sum > 0)) throw InputError("data.split adds up to 0; set parts such as [969, 30, 1]");
  const auto border = [&](int parts) {
    const double share =
        std::accumulate(split.begin(), split.begin() + std::min<int>(parts, static_cast<int>(split.size())), 0.0) / sum;
    return static_cast<int64_t>(std::llround(share * static_cast<double>(documents)));
  };
  return {border(part), border(part + 1)};
}

Rows OpenIndexedRows(const std::filesystem::path& prefix, const IndexedOptions& options) {
  if (options.length < 2)
    throw InputError("data.max_length = ", options.length, " leaves nothing to predict; wanted at least 2");
  return std::make_shared<IndexedRows>(prefix, options);
}

}  // namespace trireme
