// ProcessGroup: the process group of a conversion, as a plain value; by default a single rank.
#pragma once

#include <functional>

namespace trireme {

struct ProcessGroup {
  int rank = 0;
  int size = 1;
  std::function<void()> barrier = [] {};  // returns when all ranks have called it
};

}  // namespace trireme
