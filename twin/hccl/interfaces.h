// Which of a host's network interfaces HCCL listens on. Only chooses; sockets are elsewhere.
#pragma once

#include <string>
#include <vector>

#include "twin/hccl/settings.h"

namespace twin {

struct Interface {
  std::string name;
  std::string address;  // IPv4, as text
};

// Those of this host that are up, in the order of their names.
std::vector<Interface> ListInterfaces();

// HCCL's rule: HCCL_IF_IP, else what HCCL_SOCKET_IFNAME admits, each in this order: ordinary interfaces,
// docker's, the loopback. HCCL_SOCKET_IFNAME is a list of prefixes "eth,enp", with "^" of prefixes to leave
// out, with "=" of whole names, "^=" of whole names to leave out. Throws where nothing fits, and names what
// there is.
std::string ChooseAddress(const Settings& settings, const std::vector<Interface>& interfaces);

}  // namespace twin
