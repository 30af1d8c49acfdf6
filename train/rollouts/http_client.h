// A client for one HTTP request at a time: connects, asks, reads the answer to its end. Plain HTTP only; each request has a
// connection of its own, so that a server may restart between them. What is asked is up to the callers. No torch.
#pragma once

#include <functional>
#include <string>

namespace trireme {

// An address that was taken apart: http://HOST[:PORT][/PATH].
struct HttpTarget {
  std::string host, port, path;
};
// Refuses others, https among them; `key` is where the address stands in the configuration.
HttpTarget ParseHttpTarget(const std::string& address, const std::string& key);

struct HttpQuestion {
  std::string body = {};     // JSON; empty: a GET
  std::string api_key = {};  // empty: none
  std::string who = {};      // in errors: "the reward endpoint http://…"
  std::string limit = {};    // in errors: "rl.reward_seconds"
  double seconds = 60;
  std::function<bool()> gives_up = {};  // polled while it waits: whether nobody wants the answer any more
};

struct HttpResult {
  int status = 0;
  std::string reason = {};  // "404 Not Found"
  std::string body = {};
};

// Throws a runtime error where there is no whole answer within the time.
HttpResult AskHttp(const HttpTarget& target, const HttpQuestion& question);

}  // namespace trireme
