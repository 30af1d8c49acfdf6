// TinkerRoutes: the paths of remote training below /api/v1, from HTTP to the room and back: keys, bodies, errors as
// clients of the protocol read them ({"detail": …}). On the HTTP thread; waits for nothing.
#pragma once

#include <memory>
#include <string>

#include "serve/callers.h"
#include "serve/tinker/archive.h"
#include "serve/tinker/room.h"
#include "web/http/http.h"

namespace trireme::tinker {

inline constexpr char kTinkerPrefix[] = "/api/v1/";

class TinkerRoutes {
 public:
  // All references outlive it.
  TinkerRoutes(Room& room, const Checkpoints& checkpoints, const Callers& callers)
      : room_(room), checkpoints_(checkpoints), callers_(callers) {}

  static bool Takes(const HttpRequest& request) { return request.path().starts_with(kTinkerPrefix); }
  // The request with its key where other requests have it: clients may send it in any of three headers.
  static HttpRequest WithKey(HttpRequest request);
  // A signed link says by itself what it opens.
  static bool NeedsNoKey(const HttpRequest& request);
  void Handle(HttpRequest request, std::shared_ptr<HttpReply> reply);

 private:
  std::string OwnerOf(const HttpRequest& request) const;
  // Of a signed link, which needs no key.
  void SendFile(const HttpRequest& request, const std::shared_ptr<HttpReply>& reply) const;
  // Where a file of a checkpoint can be fetched for a while, without a key.
  std::string LinkOf(const HttpRequest& request, const std::string& owner, const CheckpointPath& path,
                     const std::string& file) const;
  HttpAnswer ArchiveLink(const HttpRequest& request, const std::string& owner, const CheckpointPath& path) const;
  Json FileLinks(const HttpRequest& request, const std::string& owner, const CheckpointPath& path) const;
  HttpAnswer Checkpoint(const HttpRequest& request, const std::string& path, const std::string& owner);
  HttpAnswer Dispatch(const HttpRequest& request, const std::string& owner, const std::shared_ptr<HttpReply>& reply,
                      bool& later);
  Json Post(const HttpRequest& request, const std::string& path, const std::string& owner);
  Json Get(const HttpRequest& request, const std::string& path, const std::string& owner) const;

  Room& room_;
  const Checkpoints& checkpoints_;
  const Callers& callers_;
  const Links links_;
};

}  // namespace trireme::tinker
