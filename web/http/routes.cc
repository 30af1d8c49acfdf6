#include "web/http/routes.h"

#include <algorithm>
#include <charconv>

#include "core/base/error.h"
#include "core/base/text.h"

namespace trireme {
namespace {

int HexDigit(char digit) {
  if (digit >= '0' && digit <= '9') return digit - '0';
  if (digit >= 'a' && digit <= 'f') return digit - 'a' + 10;
  return digit >= 'A' && digit <= 'F' ? digit - 'A' + 10 : -1;
}

// "/a//b" to "a", "", "b".
std::vector<std::string> PartsOf(std::string_view path) {
  std::vector<std::string> parts;
  while (!path.empty()) {
    path.remove_prefix(1);  // the slash
    const size_t end = std::min(path.find('/'), path.size());
    parts.emplace_back(path.substr(0, end));
    path.remove_prefix(end);
  }
  return parts;
}

bool IsValue(const std::string& part) { return part.starts_with('{'); }
bool IsRest(const std::string& part) { return part.ends_with("...}"); }

// "{name}" and "{name...}" to "name".
std::string NameOf(const std::string& part) {
  return part.substr(1, part.size() - (IsRest(part) ? std::string_view("{...}") : std::string_view("{}")).size());
}

std::string Joined(const std::vector<std::string>& parts, size_t begin) {
  return Join(std::vector<std::string>(parts.begin() + static_cast<std::ptrdiff_t>(begin), parts.end()), "/");
}

// Nothing: the path is another one. A value is never empty.
std::optional<PathValues> ValuesIn(const std::vector<std::string>& wanted, const std::vector<std::string>& sent) {
  PathValues values;
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (i >= sent.size()) return std::nullopt;
    if (!IsValue(wanted[i])) {
      if (wanted[i] != sent[i]) return std::nullopt;
      continue;
    }
    const std::string value = PercentDecoded(IsRest(wanted[i]) ? Joined(sent, i) : sent[i]);
    if (value.empty()) return std::nullopt;
    values[NameOf(wanted[i])] = value;
    if (IsRest(wanted[i])) return values;
  }
  return sent.size() == wanted.size() ? std::optional(values) : std::nullopt;
}

void CheckBody(const HttpRequest& request, const RouteOptions& options) {
  if (options.json && !LowerCase(request.header("content-type")).starts_with("application/json")) {
    throw ApiError{.status = 415, .message = "wanted a body of Content-Type application/json"};
  }
  if (options.body_bytes > 0 && std::ssize(request.body) > options.body_bytes) {
    throw ApiError{.status = 413,
                   .message = Concat("the body is larger than ", options.body_bytes, " bytes"),
                   .code = "request_too_large"};
  }
}

}  // namespace

std::string PercentDecoded(std::string_view text) {
  std::string decoded;
  for (size_t i = 0; i < text.size(); ++i) {
    const int high = text[i] == '%' && i + 2 < text.size() ? HexDigit(text[i + 1]) : -1;
    const int low = high >= 0 ? HexDigit(text[i + 2]) : -1;
    decoded += low < 0 ? text[i] : static_cast<char>(high * 16 + low);
    if (low >= 0) i += 2;
  }
  return decoded;
}

std::optional<std::string> QueryValue(const HttpRequest& request, const std::string& name) {
  const size_t mark = request.target.find('?');
  if (mark == std::string::npos) return std::nullopt;
  const std::string query = "&" + request.target.substr(mark + 1), wanted = "&" + name + "=";
  const size_t found = query.find(wanted);
  if (found == std::string::npos) return std::nullopt;
  const size_t begin = found + wanted.size();
  return PercentDecoded(query.substr(begin, query.find('&', begin) - begin));
}

std::optional<int64_t> QueryNumber(const HttpRequest& request, const std::string& name) {
  const std::optional<std::string> text = QueryValue(request, name);
  if (!text || text->empty()) return std::nullopt;
  int64_t number = -1;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), number);
  if (error == std::errc() && end == text->data() + text->size() && number >= 0) return number;
  throw ApiError{.message = Concat(name, ": wanted a whole number of 0 or more"), .param = name};
}

bool RoutePaths::Route::Takes(const std::string& asked) const {
  return method == "*" || method == asked || (method == "GET" && asked == "HEAD" && options.head);
}

void RoutePaths::Add(const std::string& method, const std::string& path, const RouteOptions& options) {
  routes_.push_back({.method = method, .path = path, .parts = PartsOf(path), .options = options});
}

RoutePaths::Found RoutePaths::Find(const HttpRequest& request) const {
  const std::string path = request.path();
  const std::vector<std::string> parts = PartsOf(path);
  std::vector<std::string> methods;  // that the path takes
  for (size_t i = 0; i < routes_.size(); ++i) {
    std::optional<PathValues> values = ValuesIn(routes_[i].parts, parts);
    if (!values) continue;
    if (routes_[i].Takes(request.method)) {
      CheckBody(request, routes_[i].options);
      return {i, *std::move(values)};
    }
    methods.push_back(routes_[i].method);
    if (routes_[i].method == "GET" && routes_[i].options.head) methods.push_back("HEAD");
  }
  if (methods.empty()) throw ApiError{.status = 404, .message = "there is no path " + path.substr(0, 120)};
  const std::string allowed = Join(methods);
  throw ApiError{.status = 405, .message = path.substr(0, 120) + " takes " + allowed, .allow = allowed};
}

std::string RoutePaths::Text() const {
  return Join(routes_, ", ", [](const Route& route) { return route.method + " " + route.path; });
}

}  // namespace trireme
