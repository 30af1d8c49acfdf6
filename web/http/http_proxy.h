// Proxies that the environment names, as curl and Python read it: HTTPS_PROXY or HTTP_PROXY by the scheme of the
// address, otherwise ALL_PROXY, not for the hosts of NO_PROXY; names in lower case come first. Only plain HTTP to the
// proxy itself. No torch.
#pragma once

#include <optional>
#include <string>

#include "web/http/http_address.h"

namespace trireme {

struct HttpProxy {
  HttpTarget target;
  std::string credentials = {};  // NAME:PASSWORD, percent-decoded; empty: none
  std::string variable = {};     // that names it, for errors

  // The line of a request's head, with its end; empty: none is needed.
  std::string AuthorizationLine() const;
};

// Of a request to `target`; nothing: it goes there directly. A variable that names no such proxy is an input error.
std::optional<HttpProxy> ProxyFor(const HttpTarget& target);

// Whether the list of NO_PROXY covers the target: "*", or a host, a domain or one of them with a port, separated by
// commas.
bool GoesDirectly(const HttpTarget& target, const std::string& list);

}  // namespace trireme
