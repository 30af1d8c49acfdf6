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
    std::map<std::string, std::string> headers;  // of every answer
  };
  using Answer = std::function<HttpAnswer(const Call&)>;
  // Nothing: the service answers.
  using BodyAnswer = std::function<std::optional<HttpAnswer>(const Call&, const Json& body)>;

  void Add(const std::string& method, const std::string& path, Answer answer);
  // A POST whose body is read on the thread for that.
  void AddBody(const std::string& path, BodyAnswer answer);
  void AddNotOffered(const std::string& path, const std::string& why);
  void AddAll();

  void Dispatch(std::shared_ptr<Call> call);
  static void Send(const Call& call, HttpAnswer answer);
  HttpAnswer Models(const std::string& name) const;
  HttpAnswer Tokenize(const Json& body) const;
  void Generate(const Call& call, CompletionRequest request);
  void ChangeAdapter(bool load, const Call& call, const Json& body);

  struct Handler {
    Answer at_once;   // or:
    BodyAnswer body;  // on the thread
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
