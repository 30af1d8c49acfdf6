// Two hosts in network namespaces; see conformance_network.h. The `ip` program does the work.
#include "tests/twin/hccl/conformance_network.h"

#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>

namespace conformance {

TwoHosts::TwoHosts() : prefix_("trj" + std::to_string(getpid())) {
  for (int host = 0; host < 2; ++host) Run("ip netns add " + NamespaceName(host));
  Run("ip link add " + prefix_ + "x type veth peer name " + prefix_ + "y");
  for (int host = 0; host < 2; ++host) {
    const std::string name = NamespaceName(host);
    const std::string inside = "ip -n " + name + " ";
    Run("ip link set " + prefix_ + (host == 0 ? "x" : "y") + " netns " + name + " name " + kCable);
    Run(inside + "link add " + kDecoy + " type veth peer name dcy1");
    Run(inside + "addr add " + address(host) + "/24 dev " + kCable);
    Run(inside + "addr add 10.98." + std::to_string(host) + ".1/24 dev " + kDecoy);
    for (const std::string device : {"lo", kCable, kDecoy, "dcy1"}) Run(inside + "link set " + device + " up");
  }
}

TwoHosts::~TwoHosts() {
  for (int host = 0; host < 2; ++host) {
    // A veth disappears with its namespace. After a failed set-up there may be nothing to delete, hence no
    // check.
    const std::string command = "ip netns del " + NamespaceName(host) + " 2>/dev/null";
    (void)!std::system(command.c_str());
  }
  (void)!std::system(("ip link del " + prefix_ + "x 2>/dev/null").c_str());
}

void TwoHosts::Run(const std::string& command) {
  if (!ready()) return;
  if (std::system(command.c_str()) != 0) problem_ = command;
}

void TwoHosts::Enter(int host) const {
  const std::string path = "/var/run/netns/" + NamespaceName(host);
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0 || setns(fd, CLONE_NEWNET) != 0) {
    std::perror(path.c_str());
    _exit(11);
  }
  close(fd);
}

uint64_t SentBytes() {
  std::ifstream table("/proc/self/net/dev");
  for (std::string line; std::getline(table, line);) {
    const size_t colon = line.find(std::string(TwoHosts::kCable) + ":");
    if (colon == std::string::npos) continue;
    std::istringstream fields(line.substr(line.find(':') + 1));
    uint64_t value = 0;
    for (int field = 0; field < 9; ++field) fields >> value;  // the ninth number is the bytes sent
    return value;
  }
  return 0;
}

}  // namespace conformance
