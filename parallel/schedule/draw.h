// Drawings of a simulated time line, for people: as text and as SVG.
#pragma once

#include <string>

#include "parallel/schedule/simulate.h"

namespace trireme {

// One row a rank, one column a time unit (the shortest compute action). "F3" forward, "B3" both gradients,
// "I3" of the input, "W3" of the weights of micro batch 3; with several chunks a rank "F3.1" names the chunk;
// "-" goes on, "." is idle. Ends with each rank's bubble and live activations.
std::string DrawText(const Timeline& timeline);

// The same as a stand-alone SVG picture with a legend. Odd chunks are darker.
std::string DrawSvg(const Timeline& timeline);

}  // namespace trireme
