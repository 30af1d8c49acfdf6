// The drawing as SVG. Has its own white background, for light and dark pages alike.
#include <algorithm>
#include <iomanip>
#include <sstream>

#include "parallel/schedule/draw.h"
#include "parallel/schedule/draw_parts.h"

namespace trireme {
namespace {

constexpr double kLeft = 70;    // room for the ranks' names
constexpr double kTop = 64;     // room for title and legend
constexpr double kRow = 26;     // height of a rank's row
constexpr double kUnit = 30;    // width of the shortest action
constexpr double kRight = 150;  // room for each rank's numbers
constexpr double kLegendColumn = 150;

struct Look {
  ActionKind kind;
  const char* fill[2];  // even chunks, odd chunks
  const char* meaning;
};

// Distinct in hue and in lightness, so that colour-blind readers and greyscale prints can tell them apart.
constexpr Look kLooks[] = {
    {ActionKind::kForward, {"#9ecae1", "#6baed6"}, "F forward"},
    {ActionKind::kBackward, {"#fdae6b", "#f58a3c"}, "B both gradients"},
    {ActionKind::kBackwardInput, {"#fdd0a2", "#fbb568"}, "I input gradient"},
    {ActionKind::kBackwardWeight, {"#c7e9c0", "#93d18c"}, "W weight gradient"},
};

const char* FillOf(const Action& action) {
  const Look* look = std::find_if(std::begin(kLooks), std::end(kLooks),
                                  [&](const Look& candidate) { return candidate.kind == action.kind; });
  return look->fill[action.chunk % 2];
}

void Box(std::ostream& svg, double x, double y, double width, double height, const char* fill) {
  svg << "<rect x=\"" << x << "\" y=\"" << y << "\" width=\"" << width << "\" height=\"" << height << "\" fill=\""
      << fill << "\" stroke=\"#555\" stroke-width=\"0.5\"/>\n";
}

void Text(std::ostream& svg, double x, double y, const char* style, const std::string& text) {
  svg << "<text x=\"" << x << "\" y=\"" << y << "\" class=\"" << style << "\">" << text << "</text>\n";
}

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
  svg << "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" << width << "\" height=\"" << height
      << "\" viewBox=\"0 0 " << width << ' ' << height << "\">\n"
      << "<style>text{font-family:sans-serif;fill:#222}.title{font-size:14px;font-weight:bold}"
      << ".name{font-size:12px}.cell{font-size:10px;text-anchor:middle}</style>\n"
      << "<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n";
  Text(svg, 12, 22, "title", timeline.title);
  Legend(svg, timeline.chunks);
  for (size_t rank = 0; rank < timeline.ranks.size(); ++rank) Row(svg, timeline, rank, scale);
  svg << "</svg>\n";
  return svg.str();
}

}  // namespace trireme
