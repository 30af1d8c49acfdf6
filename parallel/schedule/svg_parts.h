// What pictures of timelines share: colours of actions, boxes and text of an SVG page. Knows no times.
#pragma once

#include <algorithm>
#include <iterator>
#include <ostream>
#include <string>

#include "parallel/schedule/schedule.h"

namespace trireme {

struct Look {
  ActionKind kind;
  const char* fill[2];  // even chunks, odd chunks
  const char* meaning;
};

// Distinct in hue and in lightness, so that colour-blind readers and greyscale prints can tell them apart.
inline constexpr Look kLooks[] = {
    {ActionKind::kForward, {"#9ecae1", "#6baed6"}, "F forward"},
    {ActionKind::kBackward, {"#fdae6b", "#f58a3c"}, "B both gradients"},
    {ActionKind::kBackwardInput, {"#fdd0a2", "#fbb568"}, "I input gradient"},
    {ActionKind::kBackwardWeight, {"#c7e9c0", "#93d18c"}, "W weight gradient"},
};

inline const char* FillOf(const Action& action) {
  const Look* look = std::find_if(std::begin(kLooks), std::end(kLooks),
                                  [&](const Look& candidate) { return candidate.kind == action.kind; });
  return look->fill[action.chunk % 2];
}

inline void Box(std::ostream& svg, double x, double y, double width, double height, const char* fill) {
  svg << "<rect x=\"" << x << "\" y=\"" << y << "\" width=\"" << width << "\" height=\"" << height << "\" fill=\""
      << fill << "\" stroke=\"#555\" stroke-width=\"0.5\"/>\n";
}

inline void Text(std::ostream& svg, double x, double y, const char* style, const std::string& text) {
  svg << "<text x=\"" << x << "\" y=\"" << y << "\" class=\"" << style << "\">" << text << "</text>\n";
}

// A page with its own white background, for light and dark pages alike; the caller closes it.
inline void OpenSvg(std::ostream& svg, double width, double height) {
  svg << "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" << width << "\" height=\"" << height
      << "\" viewBox=\"0 0 " << width << ' ' << height << "\">\n"
      << "<style>text{font-family:sans-serif;fill:#222}.title{font-size:14px;font-weight:bold}"
      << ".name{font-size:12px}.cell{font-size:10px;text-anchor:middle}</style>\n"
      << "<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n";
}

}  // namespace trireme
