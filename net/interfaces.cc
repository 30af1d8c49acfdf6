// The interface choice of HCCL; see interfaces.h for the rule.
#include "net/interfaces.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <memory>
#include <sstream>

namespace net {
namespace {

std::string Listed(const std::vector<Interface>& interfaces) {
  std::string text;
  for (const Interface& each : interfaces) text += (text.empty() ? "" : ", ") + each.name + " " + each.address;
  return text.empty() ? "none" : text;
}

// HCCL_SOCKET_IFNAME, parsed.
class NameFilter {
 public:
  explicit NameFilter(std::string pattern) {
    const auto take = [&pattern](char mark) {
      const bool found = !pattern.empty() && pattern.front() == mark;
      if (found) pattern.erase(0, 1);
      return found;
    };
    exclude_ = take('^');
    whole_ = take('=');
    std::istringstream words(pattern);
    for (std::string word; std::getline(words, word, ',');) {
      if (!word.empty()) words_.push_back(word);
    }
  }

  bool Admits(const std::string& name) const {
    const bool matched = std::any_of(words_.begin(), words_.end(), [&](const std::string& word) {
      return whole_ ? name == word : name.starts_with(word);
    });
    return matched != exclude_;
  }

 private:
  bool exclude_ = false;
  bool whole_ = false;
  std::vector<std::string> words_;
};

int Preference(const Interface& each, bool loopback_first) {
  if (each.name == "lo") return loopback_first ? -1 : 2;
  return each.name.starts_with("docker") ? 1 : 0;
}

std::string Variable(const char* name) {
  const char* text = std::getenv(name);
  return text == nullptr ? "" : text;
}

}  // namespace

std::vector<Interface> ListInterfaces() {
  ifaddrs* first = nullptr;
  if (getifaddrs(&first) != 0) throw NoInterface("the network interfaces cannot be listed");
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(first, freeifaddrs);
  std::vector<Interface> found;
  for (const ifaddrs* each = first; each != nullptr; each = each->ifa_next) {
    if (each->ifa_addr == nullptr || each->ifa_addr->sa_family != AF_INET || !(each->ifa_flags & IFF_UP)) continue;
    std::array<char, INET_ADDRSTRLEN> text{};
    inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(each->ifa_addr)->sin_addr, text.data(), text.size());
    found.push_back({each->ifa_name, text.data()});
  }
  std::stable_sort(found.begin(), found.end(), [](const Interface& a, const Interface& b) { return a.name < b.name; });
  return found;
}

std::string ChooseAddress(const InterfaceWish& wish, const std::vector<Interface>& interfaces) {
  if (!wish.address.empty()) {
    const bool ours = std::any_of(interfaces.begin(), interfaces.end(),
                                  [&](const Interface& each) { return each.address == wish.address; });
    if (ours) return wish.address;
    throw NoInterface("HCCL_IF_IP is '" + wish.address +
                      "', which is not an IPv4 address of this host; it has: " + Listed(interfaces));
  }
  const bool filtered = !wish.names.empty();
  const bool loopback_first = wish.one_host && !filtered;
  const NameFilter filter(wish.names);
  const Interface* best = nullptr;
  for (const Interface& each : interfaces) {
    if (filtered && !filter.Admits(each.name)) continue;
    if (best == nullptr || Preference(each, loopback_first) < Preference(*best, loopback_first)) best = &each;
  }
  if (best != nullptr) return best->address;
  throw NoInterface("no network interface matches HCCL_SOCKET_IFNAME='" + wish.names +
                    "'; this host has: " + Listed(interfaces));
}

std::string ChooseOwnAddress(bool one_host) {
  return ChooseAddress({Variable("HCCL_IF_IP"), Variable("HCCL_SOCKET_IFNAME"), one_host}, ListInterfaces());
}

}  // namespace net
