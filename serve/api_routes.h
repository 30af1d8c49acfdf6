// ApiRoutes: the frame of a server's paths: who may ask, which handler a request has, bodies read on a thread of their
// own so that the HTTP thread waits for nothing, errors in OpenAI's form. What paths do is in routes.h (models that
// write text) and text_routes.h (vectors, scores, labels).
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/json.h"
#include "serve/callers.h"
#include "serve/metrics.h"
#include "serve/work_thread.h"
#include "web/http/http.h"
#include "web/http/routes.h"

namespace trireme {

class ApiRoutes {
 public:
  // The callers outlive it.
  explicit ApiRoutes(const Callers& callers) : callers_(callers), reading_(std::in_place, WorkThread::Limits()) {}
  virtual ~ApiRoutes() = default;

  void Handle(HttpRequest request, std::shared_ptr<HttpReply> reply);

 protected:
  struct Call {
    HttpRequest request;
    PathValues values;
    std::string tenant;
    std::shared_ptr<HttpReply> reply;
    std::map<std::string, std::string> headers;  // of every response
  };
  using Respond = std::function<HttpResponse(const Call&)>;
  // Nothing: the response comes later, by Send.
  using RespondToBody = std::function<std::optional<HttpResponse>(const Call&, const Json& body)>;

  // Both forms of a base URL work: with /v1 and without.
  void Add(const std::string& method, const std::string& path, Respond respond);
  // A POST whose body is read on the thread for that.
  void AddBody(const std::string& path, RespondToBody respond);
  void AddNotOffered(const std::string& path, const std::string& why);
  // /health, /metrics and /version.
  void AddServerPaths(const Metrics& metrics, const std::string& model);
  // What no server here does, whatever its model gives.
  void AddNeverOffered();

  static void Send(const Call& call, HttpResponse response);
  // An entry of /v1/models.
  static Json ModelEntry(const std::string& id, const std::string& root, const Json& parent, int64_t created,
                         int64_t context);
  // After the last body that is being read: a class calls it before what its handlers use is gone.
  void StopReading() { reading_.reset(); }

 private:
  struct Handler {
    Respond at_once;     // or:
    RespondToBody body;  // on the thread
  };

  void Dispatch(std::shared_ptr<Call> call);

  const Callers& callers_;
  RouteTable<Handler> table_;
  std::string offered_;  // for those who ask for something else
  std::optional<WorkThread> reading_;
};

}  // namespace trireme
