#include "parallel/layers/tower_tables.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include <cmath>
#include <memory>
#include <numeric>
#include <utility>

#include "core/tensor/device_copies.h"

namespace trireme {
namespace {

constexpr double kTowerTheta = 10000;

at::Tensor OnDevice(const std::vector<int64_t>& values, at::Device device) {
  return Upload(at::tensor(values, at::kLong), device);
}

RotaryTable AxialTable(const TowerPlan& plan, int64_t head_dim, at::Device device) {
  std::vector<double> frequencies;
  for (int64_t i = 0; i < head_dim / 4; ++i) {
    frequencies.push_back(std::pow(kTowerTheta, -static_cast<double>(4 * i) / static_cast<double>(head_dim)));
  }
  const RotaryTable rows = MakeRotaryTable(OnDevice(plan.rows, device), frequencies);
  const RotaryTable columns = MakeRotaryTable(OnDevice(plan.columns, device), frequencies);
  return {at::cat({rows.cosine, columns.cosine}, 1), at::cat({rows.sine, columns.sine}, 1)};
}

// For heads that do not turn.
RotaryTable UnturnedTable(int64_t states, int64_t head_dim, at::Device device) {
  const at::TensorOptions options = at::TensorOptions(at::kFloat).device(device);
  return {at::ones({states, head_dim / 2}, options), at::zeros({states, head_dim / 2}, options)};
}

// Files have positions row by row, the tower has patches in blocks.
std::vector<int64_t> TilePlaces(const TowerPlan& plan, int64_t side) {
  std::vector<int64_t> places = {0};
  for (size_t i = 0; i < static_cast<size_t>(side * side); ++i)
    places.push_back(1 + plan.rows[i] * side + plan.columns[i]);
  return places;
}

std::vector<size_t> ImagesToRun(const ImageFacts& images, const KeptFeatures* kept) {
  if (kept != nullptr && images.contents.size() == images.grids.size()) return kept->Missing(images.contents);
  std::vector<size_t> all(images.grids.size());
  std::iota(all.begin(), all.end(), size_t{0});
  return all;
}

TowerTables MakeTables(const TowerSpec& tower, const ImageFacts& images, const KeptFeatures* kept) {
  const std::vector<size_t> run = ImagesToRun(images, kept);
  std::vector<ImageGrid> grids;
  for (const size_t image : run) grids.push_back(images.grids[image]);
  TowerTables tables{.plan = PlanTower(tower, grids), .run = run};
  if (run.empty()) return tables;
  const TowerPlan& plan = tables.plan;
  const at::Device device = images.patches.device();
  tables.order = OnDevice(plan.order, device);
  tables.token_order = OnDevice(plan.token_order, device);
  tables.rotary =
      tower.tile > 0 ? UnturnedTable(plan.states, tower.head_dim, device) : AxialTable(plan, tower.head_dim, device);
  if (tower.tile > 0) tables.tile_places = OnDevice(TilePlaces(plan, tower.tile), device);
  if (tower.table_side == 0) return tables;
  std::vector<int64_t> corners;
  std::vector<float> shares;
  for (size_t patch = 0; patch < plan.corners.size(); ++patch) {
    corners.insert(corners.end(), plan.corners[patch].begin(), plan.corners[patch].end());
    shares.insert(shares.end(), plan.shares[patch].begin(), plan.shares[patch].end());
  }
  tables.corners = OnDevice(corners, device);
  tables.shares = Upload(at::tensor(shares, at::kFloat), device).unsqueeze(1);
  return tables;
}

}  // namespace

const TowerTables& TowerTablesOf(PassContext& pass, const TowerSpec& tower, const KeptFeatures* kept) {
  std::shared_ptr<const TowerTables>& tables = pass.tower_tables();
  if (!tables) tables = std::make_shared<const TowerTables>(MakeTables(tower, pass.input.images, kept));
  return *tables;
}

}  // namespace trireme
