// Who this process is among all members: which host (as far as memory and abstract sockets reach), which
// process. Also the random numbers that tell one communicator from another.
#pragma once

#include <string>

namespace twin {

// "name/boot id/network namespace". Members in other network namespaces cannot exchange descriptors over
// abstract sockets, so they count as other hosts, as containers on one machine do.
std::string HostIdentity();

// Process id, start time and process-id namespace: unlike the id alone, never used twice on a host.
std::string ProcessIdentity();

// 32 random hexadecimal digits: a name, not a secret.
std::string RandomId();

}  // namespace twin
