#include "serve/callers.h"

#include <optional>

namespace trireme {
namespace {

// "localhost:8000", "[::1]:8000", "http://127.0.0.1:3000" to the name alone.
std::string HostName(std::string text) {
  if (const size_t scheme = text.find("://"); scheme != std::string::npos) text = text.substr(scheme + 3);
  text = text.substr(0, text.find('/'));
  if (text.starts_with('[')) return LowerCase(text.substr(0, text.find(']') + 1));
  return LowerCase(text.substr(0, text.find(':')));
}

bool IsControl(const HttpRequest& request) {
  const std::string path = request.path();
  return path.ends_with("/load_lora_adapter") || path.ends_with("/unload_lora_adapter");
}

bool NeedsNoKey(const HttpRequest& request) { return request.path() == "/health" || request.path() == "/v1/health"; }

}  // namespace

// A page of another site that a user of this machine looks at must not use the server through the browser:
// neither by a name that it made resolve to this machine, nor across origins.
void Callers::CheckHost(const HttpRequest& request) const {
  const std::string host = HostName(request.header("host"));
  if (!hosts_.empty() && !hosts_.contains(host)) {
    throw ApiError{
        .status = 403,
        .message = "this server is not called '" + host.substr(0, 100) + "'; start it with --allowed-host NAME",
        .code = "host_not_allowed"};
  }
  const std::string origin = request.header("origin");
  if (!origin.empty() && HostName(origin) != host) {
    throw ApiError{
        .status = 403, .message = "requests of pages from other hosts are refused", .code = "origin_not_allowed"};
  }
}

std::string Callers::Admit(const HttpRequest& request) const {
  CheckHost(request);
  if (NeedsNoKey(request)) return "";
  const ApiKeys& keys = IsControl(request) && !control_.empty() ? control_ : keys_;
  if (const std::optional<std::string> tenant = keys.TenantOf(request.header("authorization"))) return *tenant;
  throw ApiError{.status = 401, .message = "the API key is missing or wrong", .code = "invalid_api_key"};
}

}  // namespace trireme
