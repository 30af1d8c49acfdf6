#include "launch/listening.h"

#include "core/base/error.h"

namespace trireme {

bool IsLoopback(const std::string& host) { return host == "localhost" || host == "::1" || host.starts_with("127."); }

std::set<std::string> AllowedHosts(const Arguments& arguments, const std::string& host) {
  std::set<std::string> hosts;
  for (const std::string& name : arguments.values("allowed-host")) hosts.insert(name);
  if (hosts.empty() && !IsLoopback(host)) return hosts;
  hosts.insert({"localhost", "127.0.0.1", "[::1]", host});
  return hosts;
}

void RefuseWithoutKeys(const std::string& option, const std::string& could, const std::string& host) {
  if (IsLoopback(host)) return;
  throw InputError(option, " on ", host, ": anyone who reaches it could ", could,
                   "; set keys with --api-key-file, or leave --host out");
}

uint16_t PortOf(const Arguments& arguments, int64_t fallback) {
  const int64_t port = arguments.integer("port", fallback);
  if (port > 65535) throw InputError("--port ", port, ": wanted a number up to 65535");
  return static_cast<uint16_t>(port);
}

}  // namespace trireme
