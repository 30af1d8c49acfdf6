// Gate: what the server's thread calls: nothing before the weights are there, and nothing after the end. Polls of
// remote training are held meanwhile: their clients ask again at once, without end, where a server only says that it is
// not there.
#pragma once

#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "launch/serve_training.h"
#include "serve/api_routes.h"
#include "web/http/http.h"

namespace trireme {

class Gate {
 public:
  explicit Gate(bool trains) : trains_(trains) {}
  // nullptr: closed; training: nullptr where the server does not train.
  void Open(ApiRoutes* routes, ServeTraining* training);
  // Before the server ends.
  void Release();
  void Handle(HttpRequest request, std::shared_ptr<HttpReply> reply);

 private:
  std::mutex mutex_;
  bool trains_;
  std::vector<std::pair<HttpRequest, std::shared_ptr<HttpReply>>> held_;
  ApiRoutes* routes_ = nullptr;
  ServeTraining* training_ = nullptr;
};

// Releases a gate at the end of a scope.
struct GateStop {
  Gate& gate;
  ~GateStop() { gate.Release(); }
};

}  // namespace trireme
