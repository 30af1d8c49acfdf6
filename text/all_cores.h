// Work over many items on all cores this process may use. An item's exception is rethrown to the caller: that
// of the first failing item, whichever thread finished first, so that errors are the same in every run.
#pragma once

#include <cstddef>
#include <functional>

namespace trireme {

// As many threads as cores that the process may run on, or as OMP_NUM_THREADS allows.
int UsableCores();

void OnAllCores(size_t items, const std::function<void(size_t)>& work);

}  // namespace trireme
