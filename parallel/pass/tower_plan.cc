#include "parallel/pass/tower_plan.h"

#include <algorithm>
#include <cmath>

#include "core/base/error.h"

namespace trireme {
namespace {

// Along one side of the table, corners aligned: the first patch is at its first entry, the last one at its last.
struct Between {
  int64_t low, high;
  double share;  // of `high`

  Between(int64_t place, int64_t size, int64_t side) {
    const double at = static_cast<double>(place * (side - 1)) / static_cast<double>(std::max<int64_t>(size - 1, 1));
    low = static_cast<int64_t>(std::floor(at));
    high = std::min(low + 1, side - 1);
    share = at - static_cast<double>(low);
  }
};

class TowerPlanner {
 public:
  explicit TowerPlanner(const TowerSpec& tower) : tower_(tower), plan_{.frames = RowTiles(1), .windows = RowTiles(1)} {}

  void Image(const ImageGrid& grid) {
    const int64_t side = tower_.merge;
    TRIREME_CHECK(grid.height % side == 0 && grid.width % side == 0) << grid.height << " x " << grid.width;
    for (int64_t frame = 0; frame < grid.time; ++frame) {
      const int64_t begin = plan_.states;
      if (tower_.tile > 0) ++plan_.states;  // the class token
      Frame(grid, grid.height / side, grid.width / side);
      AddTile(begin, plan_.frames.front());
    }
  }

  TowerPlan Take() {
    plan_.token_order.resize(tokens_.size());
    for (size_t i = 0; i < tokens_.size(); ++i)
      plan_.token_order[static_cast<size_t>(tokens_[i])] = static_cast<int64_t>(i);
    return std::move(plan_);
  }

 private:
  // Windows in rows; those at the right and at the bottom may be smaller. None: the whole frame is one.
  void Frame(const ImageGrid& grid, int64_t height, int64_t width) {
    const int64_t first = static_cast<int64_t>(tokens_.size());
    const int64_t tall = tower_.window > 0 ? tower_.window : height, wide = tower_.window > 0 ? tower_.window : width;
    for (int64_t top = 0; top < height; top += tall) {
      for (int64_t left = 0; left < width; left += wide) {
        const int64_t begin = plan_.states;
        for (int64_t row = top; row < std::min(top + tall, height); ++row) {
          for (int64_t column = left; column < std::min(left + wide, width); ++column) {
            Token(grid, first + row * width + column, row, column);
          }
        }
        AddTile(begin, plan_.windows.front());
      }
    }
  }

  void Token(const ImageGrid& grid, int64_t token, int64_t row, int64_t column) {
    const int64_t side = tower_.merge;
    tokens_.push_back(token);
    for (int64_t i = 0; i < side * side; ++i) {
      ++plan_.states;
      plan_.order.push_back(token * side * side + i);
      plan_.rows.push_back(row * side + i / side);
      plan_.columns.push_back(column * side + i % side);
      if (tower_.table_side > 0) TablePlace(grid);
    }
  }

  // Of the patch that was added last.
  void TablePlace(const ImageGrid& grid) {
    const int64_t side = tower_.table_side;
    const Between row(plan_.rows.back(), grid.height, side), column(plan_.columns.back(), grid.width, side);
    plan_.corners.push_back({row.low * side + column.low, row.low * side + column.high, row.high * side + column.low,
                             row.high * side + column.high});
    const auto share = [](double a, double b) { return static_cast<float>(a * b); };
    plan_.shares.push_back({share(1 - row.share, 1 - column.share), share(1 - row.share, column.share),
                            share(row.share, 1 - column.share), share(row.share, column.share)});
  }

  // From `begin` to the last state so far: each attends to all.
  void AddTile(int64_t begin, std::vector<AttentionTile>& tiles) const {
    const int64_t count = plan_.states - begin;
    tiles.push_back({.query = begin, .queries = count, .key = begin, .keys = count, .first = count - 1});
  }

  const TowerSpec tower_;
  TowerPlan plan_;
  std::vector<int64_t> tokens_;  // in the tower's order: which token of the images each is
};

}  // namespace

TowerPlan PlanTower(const TowerSpec& tower, std::span<const ImageGrid> grids) {
  TowerPlanner planner(tower);
  for (const ImageGrid& grid : grids) planner.Image(grid);
  return planner.Take();
}

}  // namespace trireme
