// Counts the calls in which the host waits for the device. TWIN_HOST_WAITS=FILE: when the process ends, one
// line of JSON with the calls by function is appended to FILE. Without it nothing is counted. A wait for an
// event that is complete is none, and one that times out counts when it succeeds. Does not say what was
// waited for.
#pragma once

namespace twin {

// `function` must be a literal (__func__ is one).
void CountHostWait(const char* function);

// A copy that returns only when it is done: to the host, or from pageable host memory.
void CountHostCopy(const char* function, bool to_host);

}  // namespace twin
