// A main for tests that must never hang: each test has a time limit; when it expires, the test's name is
// printed and the program aborts.
#pragma once

namespace conformance {

// Call from main after InitGoogleTest. The limit is far above what any test needs on a loaded machine.
void GuardEveryTest(unsigned seconds);

}  // namespace conformance
