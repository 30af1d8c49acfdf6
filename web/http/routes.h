// RouteTable: which handler a request has. A route is one line: a method, a path, what it does. A part of a path in
// braces stands for any one part ("/runs/{run}/trace"), with dots for all that is left ("/models/{name...}"); their
// values are percent-decoded here. The first route that fits is taken, in the order of adding. What fits none is
// refused here, for every server alike: 404, 405 with the methods that there are, 415, 413. Knows no server, no keys,
// no threads.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "web/http/http.h"

namespace trireme {

// "a%2Fb" to "a/b"; what is no escape stays as it is.
std::string PercentDecoded(std::string_view text);
// The value of a name in the request's query, decoded; nothing: it has none.
std::optional<std::string> QueryValue(const HttpRequest& request, const std::string& name);
// The same as a whole number of 0 or more; an ApiError if it is none.
std::optional<int64_t> QueryNumber(const HttpRequest& request, const std::string& name);

struct RouteOptions {
  bool json = false;       // takes a body of Content-Type application/json only
  int64_t body_bytes = 0;  // most of a body; 0: as many as the server takes
  bool head = true;        // of GET: HEAD is answered, too
};

// What stood in a path's braces.
using PathValues = std::map<std::string, std::string>;

// The table without the handlers. Fixed parts are compared as they were sent: who may use a path is decided by the same
// text (callers.h), so no other spelling may reach it.
class RoutePaths {
 public:
  struct Found {
    size_t route = 0;
    PathValues values = {};
  };

  // method "*": any.
  void Add(const std::string& method, const std::string& path, const RouteOptions& options);
  // Throws an ApiError.
  Found Find(const HttpRequest& request) const;
  // "GET /health, POST /tokenize", in the order of adding.
  std::string Text() const;

 private:
  struct Route {
    std::string method, path;
    std::vector<std::string> parts;
    RouteOptions options;

    bool Takes(const std::string& asked) const;
  };
  std::vector<Route> routes_;
};

template <typename Handler>
class RouteTable {
 public:
  struct Found {
    const Handler& handler;
    PathValues values;
  };

  void Add(const std::string& method, const std::string& path, Handler handler, const RouteOptions& options = {}) {
    paths_.Add(method, path, options);
    handlers_.push_back(std::move(handler));
  }
  Found Find(const HttpRequest& request) const {
    RoutePaths::Found found = paths_.Find(request);
    return {handlers_[found.route], std::move(found.values)};
  }
  std::string Text() const { return paths_.Text(); }

 private:
  RoutePaths paths_;
  std::vector<Handler> handlers_;
};

}  // namespace trireme
