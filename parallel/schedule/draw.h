// Drawings of a simulated timeline, for people: as text and as SVG.
#pragma once

#include <string>

#include "parallel/schedule/simulate.h"

namespace trireme {

// One row per rank, one column per time unit (the shortest compute action). "F3" forward, "B3" both
// gradients, "I3" input gradient, "W3" weight gradient of micro batch 3; with several chunks per rank "F3.1"
// names the chunk; "-" continues an action, "." is idle. Ends with each rank's bubble and live activations.
std::string DrawText(const Timeline& timeline);

// The same as a stand-alone SVG picture with a legend. Odd chunks are darker.
std::string DrawSvg(const Timeline& timeline);

}  // namespace trireme
