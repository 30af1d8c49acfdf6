// Futures: results that clients come back for. A poll is held until its result is there or half a minute has passed;
// results stay for some minutes, since an answer may be lost on its way. Futures of one topic can be waited for
// together. Knows neither models nor work. Not thread-safe: its owner locks.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/base/json.h"
#include "web/http/http.h"

namespace trireme::tinker {

struct FutureResult {
  std::string json = {};
  std::string proto = {};  // the same in protobuf, for clients that ask for it; empty: JSON for all
  bool failed = false;
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
  // Why an owner's work waits, for polls that are told to come again; empty: it does not.
  using PauseOf = std::function<std::string(const std::string& owner)>;
  explicit Futures(FutureTimes times = {}, PauseOf pause = {}) : times_(times), pause_(std::move(pause)) {}

  // A new one of this owner; its request_id.
  std::string Add(const std::string& owner, const std::string& topic = "");
  int64_t open(const std::string& owner) const;  // that are not done
  int64_t open() const;                          // of all owners
  void Finish(const std::string& id, FutureResult result, double now);
  bool done(const std::string& id) const;
  // One that nobody has been told of.
  void Forget(const std::string& id);
  // Answers now, later, or with 404 if it is not the owner's, 410 if it was forgotten.
  void Poll(const std::string& id, const std::string& owner, bool takes_proto, std::shared_ptr<HttpReply> reply,
            double now);
  // Answers with those of a topic that were done after `cursor`, now or as soon as there is one; those up to it are
  // known to the client. `retrieved`: their results will not be asked for again. The caller has checked that the topic
  // is the owner's.
  void PollTopic(const std::string& topic, const std::string& owner, int64_t cursor,
                 const std::vector<std::string>& retrieved, std::shared_ptr<HttpReply> reply, double now);
  // Topics that begin so are over.
  void ForgetTopics(const std::string& prefix);
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
    std::string owner, topic;
    bool done = false;
    FutureResult result = {};
    double forget = 0;
    std::vector<Waiting> polls = {};
  };
  struct Topic {
    std::map<int64_t, Json> completions = {};  // by cursor
    int64_t last = 0;
    std::vector<Waiting> polls = {};
  };
  static void Answer(const Future& future, const Waiting& waiting);
  static void AnswerTopic(const Topic& topic, HttpReply& reply);
  void Announce(const std::string& id, const Future& future);
  HttpResponse TryAgain(const std::string& id, const std::string& owner) const;

  const FutureTimes times_;
  const PauseOf pause_;
  std::map<std::string, Future> futures_;
  std::map<std::string, int64_t> open_;  // by owner
  std::map<std::string, Topic> topics_;
};

}  // namespace trireme::tinker
