#include "board/page_access.h"

#include <algorithm>

#include "board/page_files.h"
#include "core/base/json.h"
#include "net/secret.h"

namespace trireme {
namespace {

constexpr const char* kCookieName = "trireme_session";
constexpr size_t kMostLogins = 256;

bool IsOpenPath(const HttpRequest& request) {
  const std::string path = request.path();
  return path == "/board/login" || path == "/favicon.ico" || FindPageFile(path) != nullptr;
}

// The value of "a=1; trireme_session=…; b=2"; empty: it has none.
std::string SessionCookie(const HttpRequest& request) {
  const std::string cookies = "; " + request.header("cookie"), name = std::string("; ") + kCookieName + "=";
  const size_t found = cookies.find(name);
  if (found == std::string::npos) return "";
  const size_t begin = found + name.size();
  return cookies.substr(begin, cookies.find(';', begin) - begin);
}

// Secure: a browser that got it over TLS never sends it in the clear.
std::string CookieText(const HttpRequest& request, const std::string& value, const std::string& more = "") {
  return std::string(kCookieName) + "=" + value + "; Path=/; HttpOnly; SameSite=Strict" +
         (request.secure ? "; Secure" : "") + more;
}

}  // namespace

std::string PageAccess::NewSecretText() { return net::NewSecret(); }

const PageAccess::Entry* PageAccess::FindEntry(const HttpRequest& request) const {
  const std::string cookie = SessionCookie(request);
  if (cookie.empty()) return nullptr;
  const std::string proof = net::Proof(secret_, cookie);
  for (const Entry& entry : entries_) {
    if (net::SameProof(entry.proof, proof)) return &entry;
  }
  return nullptr;
}

void PageAccess::Check(const HttpRequest& request) const {
  if (IsOpenPath(request)) return callers_.CheckHost(request);
  callers_.Admit(WithKey(request));
}

HttpRequest PageAccess::WithKey(HttpRequest request) const {
  if (!request.header("authorization").empty()) return request;
  if (const Entry* entry = FindEntry(request)) request.headers["authorization"] = entry->authorization;
  return request;
}

std::string PageAccess::NewLogin(const HttpRequest& request, const std::string& key) {
  HttpRequest with_key{.method = "GET", .target = "/board/about", .headers = request.headers};
  with_key.headers["authorization"] = "Bearer " + key;
  callers_.Admit(with_key);
  const std::string cookie = net::Hex(net::RandomBytes(32));
  entries_.push_back({net::Proof(secret_, cookie), with_key.headers["authorization"]});
  if (entries_.size() > kMostLogins) entries_.pop_front();
  return CookieText(request, cookie);
}

HttpResponse PageAccess::Login(const HttpRequest& request) {
  const Json body = TryParseJson(request.body);
  if (!body.is_object() || !body.contains("key") || !body["key"].is_string()) {
    throw ApiError{.message = "wanted {\"key\": …}", .param = "key"};
  }
  HttpResponse response{.status = 204};
  response.headers["Set-Cookie"] = NewLogin(request, body["key"].get<std::string>());
  return response;
}

HttpResponse PageAccess::Enter(const HttpRequest& request, const std::string& key) {
  HttpResponse response{.status = 303};
  response.headers = {{"Set-Cookie", NewLogin(request, key)},
                      {"Location", "/"},
                      {"Cache-Control", "no-store"},
                      {"Referrer-Policy", "no-referrer"}};
  return response;
}

HttpResponse PageAccess::Logout(const HttpRequest& request) {
  if (const Entry* found = FindEntry(request)) {
    std::erase_if(entries_, [proof = found->proof](const Entry& entry) { return entry.proof == proof; });
  }
  HttpResponse response{.status = 204};
  response.headers["Set-Cookie"] = CookieText(request, "", "; Max-Age=0");
  return response;
}

}  // namespace trireme
