#include "web/http/http_proxy.h"

#include <openssl/evp.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "core/base/error.h"

namespace trireme {
namespace {

struct Named {
  std::string variable, value;
};

std::string Upper(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return text;
}

std::string Lower(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

// An empty variable in lower case switches off the other one, too.
std::optional<Named> Variable(const std::string& lower_case) {
  for (const std::string& name : {lower_case, Upper(lower_case)}) {
    const char* value = std::getenv(name.c_str());
    if (value != nullptr) return *value == 0 ? std::nullopt : std::optional(Named{name, value});
  }
  return std::nullopt;
}

std::string PercentDecoded(std::string_view text) {
  std::string decoded;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool coded = text[i] == '%' && i + 2 < text.size() &&
                       std::isxdigit(static_cast<unsigned char>(text[i + 1])) != 0 &&
                       std::isxdigit(static_cast<unsigned char>(text[i + 2])) != 0;
    decoded +=
        coded ? static_cast<char>(std::strtol(std::string(text.substr(i + 1, 2)).c_str(), nullptr, 16)) : text[i];
    if (coded) i += 2;
  }
  return decoded;
}

std::string Base64(const std::string& text) {
  std::string coded(4 * ((text.size() + 2) / 3) + 1, 0);
  const int size = EVP_EncodeBlock(reinterpret_cast<unsigned char*>(coded.data()),
                                   reinterpret_cast<const unsigned char*>(text.data()), static_cast<int>(text.size()));
  coded.resize(static_cast<size_t>(size));
  return coded;
}

HttpProxy ParseProxy(const Named& named) {
  std::string address = named.value.find("://") == std::string::npos ? "http://" + named.value : named.value;
  HttpProxy proxy{.target = {}, .variable = named.variable};
  const size_t begin = address.find("://") + 3, at = address.rfind('@');
  if (at != std::string::npos && at > begin) {
    proxy.credentials = PercentDecoded(std::string_view(address).substr(begin, at - begin));
    address.erase(begin, at + 1 - begin);
  }
  const std::optional<HttpTarget> target = ParseAddress(address);
  // Not the value itself: it may hold a password.
  if (!target || target->tls)
    throw InputError(named.variable, " names '", address, "'; wanted http://[NAME:PASSWORD@]HOST:PORT");
  proxy.target = *target;
  return proxy;
}

}  // namespace

std::string HttpProxy::AuthorizationLine() const {
  return credentials.empty() ? "" : "Proxy-Authorization: Basic " + Base64(credentials) + "\r\n";
}

bool GoesDirectly(const HttpTarget& target, const std::string& list) {
  const std::string host = Lower(target.host);
  for (size_t begin = 0; begin <= list.size();) {
    const size_t end = std::min(list.find(',', begin), list.size());
    std::string entry = Lower(list.substr(begin, end - begin));
    std::erase_if(entry, [](unsigned char c) { return std::isspace(c) != 0; });
    begin = end + 1;
    if (entry == "*") return true;
    const std::string port = ":" + target.port;
    if (entry.ends_with(port)) entry.resize(entry.size() - port.size());
    while (entry.starts_with('.')) entry.erase(0, 1);
    if (!entry.empty() && (host == entry || host.ends_with("." + entry))) return true;
  }
  return false;
}

std::optional<HttpProxy> ProxyFor(const HttpTarget& target) {
  std::optional<Named> named = Variable(target.tls ? "https_proxy" : "http_proxy");
  if (!named) named = Variable("all_proxy");
  if (!named) return std::nullopt;
  const std::optional<Named> direct = Variable("no_proxy");
  if (direct && GoesDirectly(target, direct->value)) return std::nullopt;
  return ParseProxy(*named);
}

}  // namespace trireme
