// `trireme serve --train`: what remote training adds to the server: its options, its session's configuration, and the
// paths below /api/v1. The server itself is in serve.cc.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/cli/command.h"
#include "core/config.pb.h"
#include "serve/callers.h"
#include "serve/service.h"
#include "session/session.h"
#include "web/http/http.h"

namespace trireme {

std::vector<Option> TrainingOptions();
int64_t BodyLimit(const Arguments& arguments);
// Before the model is planned: with --train the session gets adapters to train. Refuses options that do not go
// together.
void PrepareTraining(const Arguments& arguments, Config& config);

class ServeTraining {
 public:
  struct Parts {
    Session& session;
    Service& service;
    const ServedModel& model;
    const Callers& callers;
    std::string directory;  // the model's
  };
  // Collective; without --train it is not there. The parts outlive it.
  ServeTraining(const Arguments& arguments, const Parts& parts);
  ~ServeTraining();

  bool there() const { return front_ != nullptr; }  // on rank 0
  static bool Takes(const HttpRequest& request);
  // Before a request's body is read: as `check` does it, of clients that send their key in a header of their own. How
  // large the body may be.
  static int64_t Check(const HttpRequest& request, const Callers& callers, const HttpCheck& check);
  void Handle(HttpRequest request, std::shared_ptr<HttpReply> reply);
  // Clients that wait are told to come again.
  void Close();

 private:
  class Ranks;  // the side of all ranks
  class Front;  // the side of rank 0
  std::unique_ptr<Front> front_;
  std::unique_ptr<Ranks> ranks_;  // uses the front
};

}  // namespace trireme
