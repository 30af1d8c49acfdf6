#include <algorithm>
#include <iomanip>
#include <sstream>

#include "core/base/text.h"
#include "cost/pictures.h"
#include "parallel/schedule/draw_parts.h"
#include "parallel/schedule/svg_parts.h"

namespace trireme {
namespace {

constexpr double kLeft = 70, kTop = 64, kRow = 30, kWidth = 1400, kRight = 100;
constexpr double kLeastForText = 24;  // of a box's width
constexpr const char *kExchange = "#5b4a8a", *kMessage = "#b2182b";

void Legend(std::ostream& svg) {
  double x = kLeft;
  const auto add = [&](const char* fill, const char* meaning) {
    Box(svg, x, 34, 16, 14, fill);
    Text(svg, x + 22, 45.5, "name", meaning);
    x += 170;
  };
  for (const Look& look : kLooks) add(look.fill[0], look.meaning);
  add(kExchange, "waits for exchanges");
  add(kMessage, "messages of stages");
}

double SecondsOf(const Durations& exchanges, ActionKind kind) {
  if (kind == ActionKind::kForward) return exchanges.forward;
  if (kind == ActionKind::kBackwardInput) return exchanges.backward_input;
  if (kind == ActionKind::kBackwardWeight) return exchanges.backward_weight;
  return exchanges.backward_input + exchanges.backward_weight;
}

class Drawing {
 public:
  Drawing(const Timeline& timeline, const StagePlacement& placement, const std::vector<Durations>& exchanges)
      : timeline_(timeline), placement_(placement), exchanges_(exchanges), scale_(kWidth / timeline.end) {}

  void Row(std::ostream& svg, int rank) const {
    const RankTimeline& row = timeline_.ranks[static_cast<size_t>(rank)];
    const double y = kTop + kRow * rank;
    Text(svg, 12, y + 18, "name", Concat("stage ", rank));
    Box(svg, kLeft, y + 2, kWidth, kRow - 4, "#f4f4f4");
    for (const TimedAction& timed : row.compute) Action(svg, rank, timed, y + 2);
    for (const TimedAction& timed : row.messages) {
      if (timed.action.is_send()) continue;
      Box(svg, kLeft + timed.start * scale_, y, std::max((timed.end - timed.start) * scale_, 0.5), 2, kMessage);
    }
    std::ostringstream idle;
    idle << std::fixed << std::setprecision(1) << 100 * row.bubble_fraction << " % idle";
    Text(svg, kLeft + kWidth + 10, y + 18, "name", idle.str());
  }

 private:
  void Action(std::ostream& svg, int rank, const TimedAction& timed, double y) const {
    const double x = kLeft + timed.start * scale_, width = (timed.end - timed.start) * scale_;
    const auto stage = static_cast<size_t>(placement_.StageAt(rank, timed.action.chunk));
    const double waits = SecondsOf(exchanges_[stage], timed.action.kind) * scale_;
    Box(svg, x, y, width, kRow - 4, FillOf(timed.action));
    if (waits > 0.1) Box(svg, x + width - waits, y + kRow - 9, waits, 5, kExchange);
    if (width < kLeastForText) return;
    Text(svg, x + width / 2, y + 14, "cell", LabelOf(timed.action, timeline_.chunks));
  }

  const Timeline& timeline_;
  const StagePlacement& placement_;
  const std::vector<Durations>& exchanges_;
  const double scale_;  // pixels per second
};

}  // namespace

std::string TimelineSvg(StepModel& model, const Layout& layout) {
  const Timeline timeline = model.Events(layout);
  const std::vector<Durations> exchanges = model.ExchangesOf(layout);
  std::ostringstream svg;
  OpenSvg(svg, kLeft + kWidth + kRight, kTop + kRow * layout.pipeline + 12);
  std::ostringstream title;
  title << timeline.title << " of the " << model.MicroBatches(layout) << " of a step: " << std::setprecision(4)
        << timeline.end << " s";
  Text(svg, 12, 22, "title", title.str());
  Legend(svg);
  const Drawing drawing(timeline, model.PlacementOf(layout), exchanges);
  for (int rank = 0; rank < layout.pipeline; ++rank) drawing.Row(svg, rank);
  svg << "</svg>\n";
  return svg.str();
}

}  // namespace trireme
