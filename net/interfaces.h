// Which of a host's network interfaces the ranks of a job listen on: one, by HCCL's rule, never all. Only
// chooses; sockets are elsewhere.
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
  bool one_host = false;     // no peers on other hosts: the loopback first, if nothing is set
};

// No interface matches; the message lists those that exist.
class NoInterface : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// The interfaces of this host that are up, sorted by name.
std::vector<Interface> ListInterfaces();

// HCCL's rule: HCCL_IF_IP, else what HCCL_SOCKET_IFNAME allows, each in this order: ordinary interfaces,
// docker's, the loopback. HCCL_SOCKET_IFNAME is a list of prefixes "eth,enp", with "^" of prefixes to
// exclude, with "=" of exact names, with "^=" of exact names to exclude. Throws NoInterface.
std::string ChooseAddress(const InterfaceWish& wish, const std::vector<Interface>& interfaces);

// With HCCL_IF_IP and HCCL_SOCKET_IFNAME from the environment and the interfaces of this host.
std::string ChooseOwnAddress(bool one_host);

}  // namespace net
