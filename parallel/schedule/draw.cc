// The drawing as text.
#include "parallel/schedule/draw.h"

#include <algorithm>
#include <cmath>
#include <iomanip>
#include <sstream>

#include "parallel/schedule/draw_parts.h"

namespace trireme {
namespace {

// Every action gets at least its first column, regardless of rounding.
std::vector<std::string> Columns(const RankTimeline& rank, const Timeline& timeline, double unit) {
  const auto column = [&](double time) { return static_cast<size_t>(std::llround(time / unit)); };
  std::vector<std::string> columns(column(timeline.end), ".");
  for (const TimedAction& timed : rank.compute) {
    const size_t first = std::min(column(timed.start), columns.size() - 1);
    columns[first] = LabelOf(timed.action, timeline.chunks);
    for (size_t i = first + 1; i < std::min(column(timed.end), columns.size()); ++i) columns[i] = "-";
  }
  return columns;
}

}  // namespace

std::string DrawText(const Timeline& timeline) {
  const double unit = ShortestCompute(timeline);
  std::vector<std::vector<std::string>> rows;
  size_t width = 1;
  for (const RankTimeline& rank : timeline.ranks) {
    rows.push_back(Columns(rank, timeline, unit));
    for (const std::string& cell : rows.back()) width = std::max(width, cell.size());
  }
  std::ostringstream text;
  text << timeline.title << '\n' << std::left;
  for (size_t rank = 0; rank < rows.size(); ++rank) {
    text << "rank " << std::setw(3) << rank << '|';
    for (const std::string& cell : rows[rank]) text << std::setw(static_cast<int>(width) + 1) << cell;
    text << '\n';
  }
  text << std::fixed << std::setprecision(1);
  for (size_t rank = 0; rank < rows.size(); ++rank) {
    text << "rank " << std::setw(3) << rank << " bubble " << 100 * timeline.ranks[rank].bubble_fraction
         << " %, at most " << timeline.ranks[rank].peak_live << " live\n";
  }
  return text.str();
}

}  // namespace trireme
