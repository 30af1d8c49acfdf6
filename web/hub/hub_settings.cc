#include "web/hub/hub_settings.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <optional>
#include <utility>

#include "core/base/environment.h"
#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/home_path.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

std::optional<fs::path> PathVariable(const char* name) {
  const auto value = EnvironmentVariable(name);
  return value ? std::optional(fs::path(ExpandHome(*value))) : std::nullopt;
}

fs::path HuggingFaceHome() {
  if (const auto home = PathVariable("HF_HOME")) return *home;
  return PathVariable("XDG_CACHE_HOME").value_or(ExpandHome("~/.cache")) / "huggingface";
}

double SecondsOf(const char* name) {
  constexpr double kDefault = 10;
  const std::string value = EnvironmentVariable(name).value_or("");
  char* end = nullptr;
  const double seconds = std::strtod(value.c_str(), &end);
  if (value.empty()) return kDefault;
  if (*end == 0 && seconds > 0 && seconds < 1e6) return seconds;
  throw InputError(name, " is '", value, "'; wanted a number of seconds");
}

// A header is one line: what else is around it, or in it, is a mistake.
std::string CheckedToken(std::string token, const std::string& from) {
  const auto space = [](unsigned char c) { return std::isspace(c) != 0; };
  token.erase(std::find_if_not(token.rbegin(), token.rend(), space).base(), token.end());
  token.erase(token.begin(), std::find_if_not(token.begin(), token.end(), space));
  const bool plain = std::ranges::all_of(token, [](unsigned char c) { return c > ' ' && c < 0x7f; });
  if (!plain) throw InputError(from, " does not hold a token: it has spaces or control characters; use hf auth login");
  return token;
}

std::string ReadToken() {
  if (IsSwitchedOn("HF_HUB_DISABLE_IMPLICIT_TOKEN")) return "";
  for (const char* name : {"HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"}) {
    if (const auto token = EnvironmentVariable(name)) return CheckedToken(*token, name);
  }
  const fs::path file = PathVariable("HF_TOKEN_PATH").value_or(HuggingFaceHome() / "token");
  return PathExists(file) ? CheckedToken(ReadTextFile(file.string()), file.string()) : "";
}

}  // namespace

fs::path HuggingFaceCache() {
  for (const char* variable : {"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"}) {
    if (const auto cache = PathVariable(variable)) return *cache;
  }
  return HuggingFaceHome() / "hub";
}

fs::path ModelScopeCache() { return PathVariable("MODELSCOPE_CACHE").value_or(ExpandHome("~/.cache/modelscope")); }

bool PrefersModelScope() { return IsSwitchedOn("USE_MODELSCOPE_HUB"); }

std::string WhyNoDownloads() {
  for (const char* name : {"HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"}) {
    if (IsSwitchedOn(name)) return Concat(name, " is set");
  }
  return "";
}

namespace {

HubServer ServerAt(const std::string& address, const char* variable, std::string token) {
  std::optional<HttpTarget> endpoint = ParseAddress(address);
  if (!endpoint) throw InputError(variable, " is '", address, "'; wanted http[s]://HOST[:PORT][/PATH]");
  while (endpoint->path.ends_with("/")) endpoint->path.pop_back();
  return {.endpoint = *endpoint,
          .token = std::move(token),
          .answer_seconds = SecondsOf("HF_HUB_ETAG_TIMEOUT"),
          .wait_seconds = SecondsOf("HF_HUB_DOWNLOAD_TIMEOUT")};
}

}  // namespace

HubServer ReadHubServer() {
  return ServerAt(EnvironmentVariable("HF_ENDPOINT").value_or("https://huggingface.co"), "HF_ENDPOINT", ReadToken());
}

HubServer ReadModelScopeServer() {
  const std::string token =
      CheckedToken(EnvironmentVariable("MODELSCOPE_API_TOKEN").value_or(""), "MODELSCOPE_API_TOKEN");
  if (const auto endpoint = EnvironmentVariable("MODELSCOPE_ENDPOINT"))
    return ServerAt(*endpoint, "MODELSCOPE_ENDPOINT", token);
  const std::string domain = EnvironmentVariable("MODELSCOPE_DOMAIN").value_or("www.modelscope.cn");
  const bool address = domain.find("://") != std::string::npos;
  return ServerAt(address ? domain : "https://" + domain, "MODELSCOPE_DOMAIN", token);
}

}  // namespace trireme
