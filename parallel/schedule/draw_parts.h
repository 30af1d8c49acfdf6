// What both drawings share: labels and the unit of time. Private to draw.cc and draw_svg.cc.
#pragma once

#include <algorithm>
#include <string>

#include "parallel/schedule/simulate.h"

namespace trireme {

// Without the chunk where a rank has only one.
inline std::string LabelOf(const Action& action, int chunks) {
  const std::string whole = action.ToText();
  return chunks == 1 ? whole.substr(0, whole.find('.')) : whole;
}

inline double ShortestCompute(const Timeline& timeline) {
  double shortest = timeline.end;
  for (const RankTimeline& rank : timeline.ranks) {
    for (const TimedAction& timed : rank.compute) shortest = std::min(shortest, timed.end - timed.start);
  }
  return shortest;
}

}  // namespace trireme
