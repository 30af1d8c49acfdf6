// A client for one HTTP request at a time: connects, asks, reads the response to its end. Each request has a connection
// of its own, so that a server may restart between them. What is asked is up to the callers. No torch.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "web/http/http_address.h"
#include "web/http/http_message.h"

namespace trireme {

// A body that is too large for memory: so many bytes, which next() gives piece by piece.
struct HttpUpload {
  int64_t bytes = 0;
  std::function<std::string()> next = {};  // none: there is no such body
};

struct HttpQuestion {
  std::string body = {};                  // empty: a GET
  std::string type = "application/json";  // of the body
  HttpUpload upload = {};                 // in the place of `body`; without a type, and each wait has the time
  std::string api_key = {};               // empty: none
  std::string who = {};                   // in errors: "the reward endpoint http://…"
  std::string limit = {};                 // in errors: "rl.reward_seconds"
  double seconds = 60;                    // for the whole response; with `sink` for each wait
  std::function<bool()> gives_up = {};    // polled while it waits: whether nobody wants the response any more

  bool by_proxy = false;  // through the proxy that the environment names (http_proxy.h), if it names one

  std::string method = {};                                        // empty: GET or POST
  std::vector<std::pair<std::string, std::string>> headers = {};  // more of them
  // Takes the body of a response with status 2xx, as it comes; the result's is empty then.
  std::function<void(const HttpHead&, std::string_view)> sink = {};
};

struct HttpResult : HttpHead {
  std::string body = {};
};

// Throws a runtime error where there is no whole response within the time.
HttpResult AskHttp(const HttpTarget& target, const HttpQuestion& question);

}  // namespace trireme
