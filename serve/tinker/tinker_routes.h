// TinkerRoutes: the paths of remote training below /api/v1, from HTTP to the room and back: keys, bodies, errors as clients
// of the protocol read them ({"detail": …}). On the HTTP thread; waits for nothing.
#pragma once

#include <memory>
#include <string>

#include "serve/callers.h"
#include "serve/http.h"
#include "serve/tinker/room.h"

namespace trireme::tinker {

inline constexpr char kTinkerPrefix[] = "/api/v1/";

class TinkerRoutes {
 public:
  // All references outlive it.
  TinkerRoutes(Room& room, const Checkpoints& checkpoints, const Callers& callers)
      : room_(room), checkpoints_(checkpoints), callers_(callers) {}

  static bool Takes(const HttpRequest& request) { return request.path().starts_with(kTinkerPrefix); }
  void Handle(HttpRequest request, std::shared_ptr<HttpReply> reply);

 private:
  std::string OwnerOf(HttpRequest& request) const;
  HttpAnswer Dispatch(const HttpRequest& request, const std::string& owner, const std::shared_ptr<HttpReply>& reply, bool& later);
  Json Post(const HttpRequest& request, const std::string& path, const std::string& owner);
  Json Get(const HttpRequest& request, const std::string& path, const std::string& owner) const;

  Room& room_;
  const Checkpoints& checkpoints_;
  const Callers& callers_;
};

}  // namespace trireme::tinker
