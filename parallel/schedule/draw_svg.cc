// The drawing as SVG. Has its own white background, for light and dark pages alike.
#include <algorithm>
#include <iomanip>
#include <sstream>

#include "parallel/schedule/draw.h"
#include "parallel/schedule/draw_parts.h"
#include "parallel/schedule/svg_parts.h"

namespace trireme {
namespace {

constexpr double kLeft = 70;    // room for the ranks' names
constexpr double kTop = 64;     // room for title and legend
constexpr double kRow = 26;     // height of a rank's row
constexpr double kUnit = 30;    // width of the shortest action
constexpr double kRight = 150;  // room for each rank's numbers
constexpr double kLegendColumn = 150;

// The letter of a cell's label, so that none has to be guessed; both shades where ranks have several chunks.
void Legend(std::ostream& svg, int chunks) {
  double x = kLeft;
  for (const Look& look : kLooks) {
    Box(svg, x, 34, 16, 14, look.fill[0]);
    if (chunks > 1) Box(svg, x + 16, 34, 16, 14, look.fill[1]);
    Text(svg, x + (chunks > 1 ? 38 : 22), 45.5, "name", look.meaning);
    x += kLegendColumn;
  }
  if (chunks > 1) Text(svg, x, 45.5, "name", "F3.1: micro batch 3, chunk 1; odd chunks are darker");
}

void Row(std::ostream& svg, const Timeline& timeline, size_t rank, double scale) {
  const RankTimeline& row = timeline.ranks[rank];
  const double y = kTop + kRow * static_cast<double>(rank);
  Text(svg, 12, y + 17, "name", "rank " + std::to_string(rank));
  Box(svg, kLeft, y + 2, timeline.end * scale, kRow - 4, "#f4f4f4");
  for (const TimedAction& timed : row.compute) {
    const double x = kLeft + timed.start * scale;
    const double width = (timed.end - timed.start) * scale;
    Box(svg, x, y + 2, width, kRow - 4, FillOf(timed.action));
    Text(svg, x + width / 2, y + 17, "cell", LabelOf(timed.action, timeline.chunks));
  }
  std::ostringstream numbers;
  numbers << std::fixed << std::setprecision(1) << 100 * row.bubble_fraction << " % idle, " << row.peak_live << " live";
  Text(svg, kLeft + timeline.end * scale + 10, y + 17, "name", numbers.str());
}

}  // namespace

std::string DrawSvg(const Timeline& timeline) {
  const double scale = kUnit / ShortestCompute(timeline);
  const double width =
      std::max(kLeft + kLegendColumn * (timeline.chunks > 1 ? 6 : 4), kLeft + timeline.end * scale + kRight);
  const double height = kTop + kRow * static_cast<double>(timeline.ranks.size()) + 12;
  std::ostringstream svg;
  OpenSvg(svg, width, height);
  Text(svg, 12, 22, "title", timeline.title);
  Legend(svg, timeline.chunks);
  for (size_t rank = 0; rank < timeline.ranks.size(); ++rank) Row(svg, timeline, rank, scale);
  svg << "</svg>\n";
  return svg.str();
}

}  // namespace trireme
