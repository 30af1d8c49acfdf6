// Which of a host's network interfaces the ranks of a job listen on: one, by HCCL's rule, never all. Only chooses;
// sockets are elsewhere.
#pragma once

#include <stdexcept>
#include <string>
#include <vector>

namespace net {

struct Interface {
  std::string name;
  std::string address;  // IPv4, as text
};

struct InterfaceWish {
  std::string address = {};  // HCCL_IF_IP; empty: not set
  std::string names = {};    // HCCL_SOCKET_IFNAME; empty: not set
  bool one_host = false;     // nobody comes from elsewhere: the loopback first, where nothing is set
};

// Nothing fits the wish; the text names what there is.
class NoInterface : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Those of this host that are up, in the order of their names.
std::vector<Interface> ListInterfaces();

// HCCL's rule: HCCL_IF_IP, else what HCCL_SOCKET_IFNAME admits, each in this order: ordinary interfaces,
// docker's, the loopback. HCCL_SOCKET_IFNAME is a list of prefixes "eth,enp", with "^" of prefixes to leave
// out, with "=" of whole names, "^=" of whole names to leave out. Throws NoInterface.
std::string ChooseAddress(const InterfaceWish& wish, const std::vector<Interface>& interfaces);

// With HCCL_IF_IP and HCCL_SOCKET_IFNAME of the environment and the interfaces of this host.
std::string ChooseOwnAddress(bool one_host);

}  // namespace net
