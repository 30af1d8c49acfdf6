// Addresses of servers: http:// and https:// taken apart, and where a redirection leads. No torch.
#pragma once

#include <optional>
#include <string>

namespace trireme {

// An address that was taken apart: http[s]://HOST[:PORT][/PATH].
struct HttpTarget {
  std::string host, port, path;
  bool tls = false;

  std::string authority() const;  // HOST, with :PORT if it is not the usual one
  std::string text() const;       // the whole address
};

// Nothing: it is not such an address.
std::optional<HttpTarget> ParseAddress(const std::string& address);

// For a key that accepts plain HTTP only: refuses others, https among them. `key` is where the address stands in the
// configuration.
HttpTarget ParseHttpTarget(const std::string& address, const std::string& key);

// Where `location` of a response from `from` leads: a whole address, or a path on the same server. Nothing: neither.
std::optional<HttpTarget> ResolveLocation(const HttpTarget& from, const std::string& location);

// The same server, asked in the same way: what may be told to one may be told to the other.
bool SameOrigin(const HttpTarget& a, const HttpTarget& b);

}  // namespace trireme
