// The library's own threads. They end with the process, use nothing that static destruction removes, and
// leave signals to the program's threads.
#pragma once

#include <functional>

namespace twin {

void RunInBackground(std::function<void()> body);

}  // namespace twin
