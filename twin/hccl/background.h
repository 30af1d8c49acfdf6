// Threads of the library itself. They end with the process, touch nothing that static destruction takes away,
// and leave the program's signals to the program's own threads.
#pragma once

#include <functional>

namespace twin {

void RunInBackground(std::function<void()> body);

}  // namespace twin
