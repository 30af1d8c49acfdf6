// Cells are searches with two keys held: what a cell shows is the best of all layouts with these sizes.
#include <algorithm>
#include <cmath>
#include <iomanip>
#include <limits>
#include <map>
#include <set>
#include <sstream>

#include "core/base/error.h"
#include "core/base/text.h"
#include "cost/pictures.h"
#include "parallel/graph/parameters.h"
#include "parallel/schedule/svg_parts.h"

namespace trireme {
namespace {

constexpr double kNames = 110, kHeads = 70, kCell = 74, kCellHeight = 40;

struct Cells {
  std::set<int> tensor, pipeline;
  std::map<std::pair<int, int>, FoundLayout> best;  // absent: none fits
};

// Dark is fast: the share of the best layout's speed.
std::string Shade(double share) {
  const auto mix = [&](int light, int dark) { return std::lround(light + (dark - light) * std::pow(share, 2)); };
  std::ostringstream colour;
  colour << "rgb(" << mix(247, 65) << "," << mix(251, 146) << "," << mix(255, 198) << ")";
  return colour.str();
}

bool Allows(const SearchOptions& options, const std::string& key, int size) {
  return std::all_of(options.fix.begin(), options.fix.end(),
                     [&](const std::string& fixed) { return fixed.rfind(key, 0) != 0 || fixed == Concat(key, size); });
}

Cells SearchCells(const Config& config, const LayerGraph& graph, const DeviceRates& device,
                  const Assumptions& assumptions, int world, const SearchOptions& options) {
  Cells cells;
  for (int tensor = 1; tensor <= std::min(world, 64); tensor *= 2) {
    for (int pipeline = 1; tensor * pipeline <= world && pipeline <= DecodersIn(graph); pipeline *= 2) {
      if (!Allows(options, "parallel.tensor=", tensor) || !Allows(options, "parallel.pipeline=", pipeline)) continue;
      SearchOptions held = options;
      held.best = 1;
      held.fix.push_back(Concat("parallel.tensor=", tensor));
      held.fix.push_back(Concat("parallel.pipeline=", pipeline));
      try {
        cells.best.emplace(std::pair(tensor, pipeline),
                           SearchLayouts(config, graph, device, assumptions, world, held).found.front());
      } catch (const Error& error) {
        if (error.exit_status() != 2) throw;
        continue;  // the cell stays empty
      }
      cells.tensor.insert(tensor);
      cells.pipeline.insert(pipeline);
    }
  }
  return cells;
}

void DrawCell(std::ostream& svg, double x, double y, const FoundLayout* found, double fastest) {
  if (found == nullptr) {
    Box(svg, x, y, kCell, kCellHeight, "#eee");
    return Text(svg, x + kCell / 2, y + 24, "cell", "no layout");
  }
  const double seconds = found->step.step_seconds;
  Box(svg, x, y, kCell, kCellHeight, Shade(fastest / seconds).c_str());
  std::ostringstream time, memory;
  time << std::setprecision(4) << seconds << " s";
  memory << std::fixed << std::setprecision(0) << found->step.tflops << " TFLOP/s";
  Text(svg, x + kCell / 2, y + 17, "cell", time.str());
  Text(svg, x + kCell / 2, y + 31, "cell", memory.str());
}

}  // namespace

std::string LayoutsSvg(const Config& config, const LayerGraph& graph, const DeviceRates& device,
                       const Assumptions& assumptions, int world, const SearchOptions& options) {
  const Cells cells = SearchCells(config, graph, device, assumptions, world, options);
  double fastest = std::numeric_limits<double>::infinity();
  for (const auto& [sizes, found] : cells.best) fastest = std::min(fastest, found.step.step_seconds);
  std::ostringstream svg;
  const auto columns = static_cast<double>(cells.pipeline.size()), rows = static_cast<double>(cells.tensor.size());
  OpenSvg(svg, std::max(kNames + kCell * columns + 20, 520.0), kHeads + kCellHeight * rows + 16);
  Text(svg, 12, 22, "title", Concat("the fastest step on ", world, " x ", device.name, ", darker is faster"));
  double x = kNames;
  for (const int pipeline : cells.pipeline) {
    Text(svg, x + kCell / 2, kHeads - 10, "cell", Concat("pipeline ", pipeline));
    double y = kHeads;
    for (const int tensor : cells.tensor) {
      const auto found = cells.best.find({tensor, pipeline});
      DrawCell(svg, x, y, found == cells.best.end() ? nullptr : &found->second, fastest);
      if (x == kNames) Text(svg, 12, y + 24, "name", Concat("tensor ", tensor));
      y += kCellHeight;
    }
    x += kCell;
  }
  svg << "</svg>\n";
  return svg.str();
}

}  // namespace trireme
