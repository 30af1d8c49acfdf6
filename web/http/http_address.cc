#include "web/http/http_address.h"

#include <strings.h>

#include <algorithm>

#include "core/base/error.h"

namespace trireme {
namespace {

constexpr char kHttp[] = "http://", kHttps[] = "https://";

const char* UsualPort(bool tls) { return tls ? "443" : "80"; }

}  // namespace

std::string HttpTarget::authority() const {
  const bool v6 = host.find(':') != std::string::npos;
  // Without the usual port: signatures of addresses on storage servers cover this text.
  return Concat(v6 ? "[" + host + "]" : host, port == UsualPort(tls) ? "" : ":" + port);
}

std::string HttpTarget::text() const { return Concat(tls ? kHttps : kHttp, authority(), path); }

std::optional<HttpTarget> ParseAddress(const std::string& address) {
  const bool tls = address.starts_with(kHttps);
  if (!tls && !address.starts_with(kHttp)) return std::nullopt;
  const std::string rest = address.substr(tls ? sizeof kHttps - 1 : sizeof kHttp - 1);
  const std::string place = rest.substr(0, rest.find_first_of("/?"));
  const size_t colon = place.find(']') == std::string::npos ? place.rfind(':') : place.find(':', place.find(']'));
  HttpTarget parts{.host = place.substr(0, colon),
                   .port = colon == std::string::npos ? UsualPort(tls) : place.substr(colon + 1),
                   .path = place.size() < rest.size() ? rest.substr(place.size()) : "/",
                   .tls = tls};
  if (parts.path.starts_with("?")) parts.path = "/" + parts.path;
  if (parts.host.starts_with("[") && parts.host.ends_with("]"))
    parts.host = parts.host.substr(1, parts.host.size() - 2);
  const bool digits =
      !parts.port.empty() && std::ranges::all_of(parts.port, [](char c) { return c >= '0' && c <= '9'; });
  const bool plain = std::ranges::none_of(address, [](unsigned char c) { return c <= ' ' || c == 0x7f; });
  if (parts.host.empty() || parts.host.find('@') != std::string::npos || !digits || !plain) return std::nullopt;
  return parts;
}

HttpTarget ParseHttpTarget(const std::string& address, const std::string& key) {
  const std::optional<HttpTarget> target = ParseAddress(address);
  if (target && !target->tls) return *target;
  throw InputError(key, " has '", address, "'; wanted http://HOST:PORT/PATH",
                   address.starts_with("https:") ? ": https is not supported, let a local proxy speak it" : "");
}

std::optional<HttpTarget> ResolveLocation(const HttpTarget& from, const std::string& location) {
  if (!location.starts_with("/")) return ParseAddress(location);
  if (location.starts_with("//")) return ParseAddress((from.tls ? "https:" : "http:") + location);
  HttpTarget server = from;
  server.path = "";
  return ParseAddress(server.text() + location);
}

bool SameOrigin(const HttpTarget& a, const HttpTarget& b) {
  return a.tls == b.tls && strcasecmp(a.host.c_str(), b.host.c_str()) == 0 && a.port == b.port;
}

}  // namespace trireme
