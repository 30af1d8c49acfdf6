#include "launch/serve_gate.h"

namespace trireme {
namespace {

constexpr size_t kMostHeldBytes = 64 * 1024;

}  // namespace

void Gate::Open(ApiRoutes* routes, ServeTraining* training) {
  const std::lock_guard lock(mutex_);
  routes_ = routes;
  training_ = training;
  if (training_ == nullptr) return;
  for (auto& [request, reply] : std::exchange(held_, {})) training_->Handle(std::move(request), std::move(reply));
}

void Gate::Release() {
  const std::lock_guard lock(mutex_);
  trains_ = false;
  held_.clear();
}

void Gate::Handle(HttpRequest request, std::shared_ptr<HttpReply> reply) {
  const std::lock_guard lock(mutex_);
  if (training_ != nullptr && ServeTraining::Takes(request))
    return training_->Handle(std::move(request), std::move(reply));
  if (trains_ && request.path().starts_with("/api/v1/retrieve_future") && request.body.size() < kMostHeldBytes) {
    held_.emplace_back(std::move(request), std::move(reply));
    return;
  }
  if (routes_ != nullptr) return routes_->Handle(std::move(request), std::move(reply));
  reply->Send(ResponseOf(
      {.status = 503, .message = "the server starts or stops", .code = "overloaded", .type = "server_error"}));
}

}  // namespace trireme
