// Crew: the ranks that work on one conversion together, as a plain value: alone by default.
#pragma once

#include <functional>

namespace trireme {

struct Crew {
  int rank = 0;
  int size = 1;
  std::function<void()> barrier = [] {};  // returns when all have called it
};

}  // namespace trireme
