#include "data/row_views.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/base/error.h"
#include "core/base/random.h"

namespace trireme {
namespace {

struct Place {
  int32_t part = 0;
  int64_t row = 0;
};

// Rows at positions of other sources.
class PlacedRows : public RowSource {
 public:
  PlacedRows(std::vector<Rows> parts, std::vector<Place> positions)
      : parts_(std::move(parts)), positions_(std::move(positions)) {}
  int64_t size() const override { return static_cast<int64_t>(positions_.size()); }
  int64_t Length(int64_t row) const override { return parts_[positions_[row].part]->Length(positions_[row].row); }
  int64_t Trained(int64_t row) const override { return parts_[positions_[row].part]->Trained(positions_[row].row); }
  Row Read(int64_t row) const override { return parts_[positions_[row].part]->Read(positions_[row].row); }
  RowExtent Extent(int64_t row) const override { return parts_[positions_[row].part]->Extent(positions_[row].row); }

 private:
  const std::vector<Rows> parts_;
  const std::vector<Place> positions_;
};

class JoinedRows : public RowSource {
 public:
  explicit JoinedRows(std::vector<Rows> parts) : parts_(std::move(parts)), begins_(1, 0) {
    for (const Rows& part : parts_) begins_.push_back(begins_.back() + part->size());
  }
  int64_t size() const override { return begins_.back(); }
  int64_t Length(int64_t row) const override { return At(row).Length(row - Begin(row)); }
  int64_t Trained(int64_t row) const override { return At(row).Trained(row - Begin(row)); }
  Row Read(int64_t row) const override { return At(row).Read(row - Begin(row)); }
  RowExtent Extent(int64_t row) const override { return At(row).Extent(row - Begin(row)); }

 private:
  size_t PartOf(int64_t row) const {
    return static_cast<size_t>(std::upper_bound(begins_.begin(), begins_.end(), row) - begins_.begin()) - 1;
  }
  int64_t Begin(int64_t row) const { return begins_[PartOf(row)]; }
  const RowSource& At(int64_t row) const { return *parts_[PartOf(row)]; }

  const std::vector<Rows> parts_;
  std::vector<int64_t> begins_;
};

}  // namespace

Rows TakeRows(Rows rows, std::vector<int64_t> indices) {
  std::vector<Place> positions;
  positions.reserve(indices.size());
  for (const int64_t index : indices) positions.push_back({0, index});
  return std::make_shared<PlacedRows>(std::vector<Rows>{std::move(rows)}, std::move(positions));
}

Rows JoinRows(std::vector<Rows> parts) {
  return parts.size() == 1 ? parts[0] : std::make_shared<JoinedRows>(std::move(parts));
}

Rows BlendRows(std::vector<Rows> parts, const std::vector<double>& weights) {
  int64_t total = 0;
  for (const Rows& part : parts) total += part->size();
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  std::vector<Place> positions;
  std::vector<int64_t> given(parts.size(), 0);
  for (int64_t i = 0; i < total; ++i) {
    size_t furthest = 0;
    double most = -1;
    for (size_t part = 0; part < parts.size(); ++part) {
      const double behind =
          weights[part] / sum * static_cast<double>(std::max<int64_t>(i, 1)) - static_cast<double>(given[part]);
      if (part > 0 && behind <= most) continue;
      most = behind;
      furthest = part;
    }
    positions.push_back({static_cast<int32_t>(furthest), given[furthest]++ % parts[furthest]->size()});
  }
  return std::make_shared<PlacedRows>(std::move(parts), std::move(positions));
}

Rows SampleRows(Rows rows, int64_t count, uint64_t seed, const std::string& name) {
  const std::vector<int64_t> order = ShuffledOrder(rows->size(), {seed, "sample of " + name});
  std::vector<int64_t> chosen;
  for (; count >= rows->size(); count -= rows->size()) {
    for (int64_t i = 0; i < rows->size(); ++i) chosen.push_back(i);
  }
  chosen.insert(chosen.end(), order.begin(), order.begin() + count);
  std::sort(chosen.end() - count, chosen.end());
  return TakeRows(std::move(rows), std::move(chosen));
}

SplitRows SetAside(Rows rows, double share, uint64_t seed) {
  if (share <= 0) return {std::move(rows), nullptr};
  if (rows->size() < 2) {
    throw InputError("data.valid_ratio = ", share, " needs at least 2 rows to split; there are ", rows->size());
  }
  const auto wanted = static_cast<int64_t>(std::llround(share * static_cast<double>(rows->size())));
  const int64_t count = std::clamp<int64_t>(wanted, 1, rows->size() - 1);
  std::vector<int64_t> order = ShuffledOrder(rows->size(), {seed, "rows set aside"});
  std::sort(order.begin(), order.begin() + count);
  std::sort(order.begin() + count, order.end());
  const auto border = order.begin() + count;
  return {TakeRows(rows, {border, order.end()}), TakeRows(rows, {order.begin(), border})};
}

}  // namespace trireme
