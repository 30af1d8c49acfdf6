// A main for tests that must never hang: each test gets a limit; past it, its name is printed and the program
// ends.
#pragma once

namespace judge {

// Call from main after InitGoogleTest. The limit is far above what any test needs on a loaded machine.
void GuardEveryTest(unsigned seconds);

}  // namespace judge
