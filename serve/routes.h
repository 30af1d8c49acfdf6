// Routes: what each path of the server does. Reads the request, hands work to the service. What takes its time (bodies,
// chat templates, the tokenizer) is done on a thread of its own: the HTTP thread waits for nothing.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "serve/callers.h"
#include "serve/generation_service.h"
#include "serve/work_thread.h"
#include "web/http/http.h"
#include "web/http/routes.h"

namespace trireme {

class Routes {
 public:
  // All references outlive it.
  // adapter_directory: adapters below it may be loaded at run time; empty: none may.
  Routes(GenerationService& service, const ServedModel& model, const Callers& callers, std::string adapter_directory);
  void Handle(HttpRequest request, std::shared_ptr<HttpReply> reply);

 private:
  struct Call {
    HttpRequest request;
    PathValues values;
    std::string tenant;
    std::shared_ptr<HttpReply> reply;
    std::map<std::string, std::string> headers;  // of every response
  };
  using Respond = std::function<HttpResponse(const Call&)>;
  // Nothing: the service answers.
  using RespondToBody = std::function<std::optional<HttpResponse>(const Call&, const Json& body)>;

  void Add(const std::string& method, const std::string& path, Respond respond);
  // A POST whose body is read on the thread for that.
  void AddBody(const std::string& path, RespondToBody respond);
  void AddNotOffered(const std::string& path, const std::string& why);
  void AddAll();

  void Dispatch(std::shared_ptr<Call> call);
  static void Send(const Call& call, HttpResponse response);
  HttpResponse Models(const std::string& name) const;
  HttpResponse Tokenize(const Json& body) const;
  void Generate(const Call& call, CompletionRequest request);
  void ChangeAdapter(bool load, const Call& call, const Json& body);

  struct Handler {
    Respond at_once;     // or:
    RespondToBody body;  // on the thread
  };

  GenerationService& service_;
  const ServedModel& model_;
  const Callers& callers_;
  const std::string adapter_directory_;
  RouteTable<Handler> table_;
  std::string offered_;  // for those who ask for something else
  WorkThread reading_;   // last: its tasks use the others
};

}  // namespace trireme
