// Futures: results that clients come back for. A poll is held until its result is there or half a minute has passed;
// results stay for some minutes, since an answer may be lost on its way. Knows neither models nor work. Not thread-safe:
// its owner locks.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/base/json.h"
#include "serve/http.h"

namespace trireme::tinker {

struct FutureResult {
  std::string json = {};
  std::string proto = {};  // the same in protobuf, for clients that ask for it; empty: JSON for all
};
// As clients read a failure: category "user" or "server".
FutureResult Failure(const std::string& message, bool users_fault);
inline FutureResult Success(const Json& body) { return {.json = JsonLine(body)}; }

struct FutureTimes {
  double hold_seconds = 30;   // a poll; clients give up after 45
  double keep_seconds = 600;  // a result after it was made or last fetched
};

class Futures {
 public:
  explicit Futures(FutureTimes times = {}) : times_(times) {}

  // A new one of this owner; its request_id.
  std::string Add(const std::string& owner);
  void Finish(const std::string& id, FutureResult result, double now);
  bool done(const std::string& id) const;
  // Answers now, later, or with 404 if it is not the owner's, 410 if it was forgotten.
  void Poll(const std::string& id, const std::string& owner, bool takes_proto, std::shared_ptr<HttpReply> reply, double now);
  // Releases polls that waited long enough, forgets old results.
  void Tick(double now);
  // All polls get "try again": the server stops.
  void ReleaseAll();

 private:
  struct Waiting {
    std::shared_ptr<HttpReply> reply;
    bool takes_proto = false;
    double until = 0;
  };
  struct Future {
    std::string owner;
    bool done = false;
    FutureResult result = {};
    double forget = 0;
    std::vector<Waiting> polls = {};
  };
  static void Answer(const Future& future, const Waiting& waiting);

  const FutureTimes times_;
  std::map<std::string, Future> futures_;
};

}  // namespace trireme::tinker
