// Who this process is among all members: which host (in the sense of shared memory and abstract sockets),
// which process. Also the random numbers that tell communicators apart.
#pragma once

#include <string>

namespace twin {

// "name/boot id/network namespace". Members in other network namespaces cannot exchange descriptors over
// abstract sockets, so they count as other hosts, as containers on one machine do.
std::string HostIdentity();

// Process id, start time and pid namespace: unlike the pid alone, never reused on a host.
std::string ProcessIdentity();

// 32 random hexadecimal digits: a name, not a secret.
std::string RandomId();

}  // namespace twin
