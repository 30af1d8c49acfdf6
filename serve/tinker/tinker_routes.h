// TinkerRoutes: the paths of remote training below /api/v1, from HTTP to the service and back: keys, bodies, errors as
// clients of the protocol read them ({"detail": …}). On the HTTP thread; waits for nothing.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "serve/callers.h"
#include "serve/tinker/archive.h"
#include "serve/tinker/remote_service.h"
#include "web/http/http.h"
#include "web/http/routes.h"

namespace trireme::tinker {

inline constexpr char kTinkerPrefix[] = "/api/v1/";

class TinkerRoutes {
 public:
  // All references outlive it.
  TinkerRoutes(RemoteService& service, const Checkpoints& checkpoints, const Callers& callers);

  static bool Takes(const HttpRequest& request) { return request.path().starts_with(kTinkerPrefix); }
  // The request with its key where other requests have it: clients may send it in any of three headers.
  static HttpRequest WithKey(HttpRequest request);
  // A signed link says by itself what it opens.
  static bool NeedsNoKey(const HttpRequest& request);
  void Handle(HttpRequest request, std::shared_ptr<HttpReply> reply);

 private:
  struct Call {
    const HttpRequest& request;
    const PathValues& values;
    const std::string& owner;
    const std::shared_ptr<HttpReply>& reply;
  };
  // Nothing: the service answers the reply.
  using Respond = std::function<std::optional<HttpResponse>(const Call&)>;

  void Add(const std::string& method, const std::string& path, Respond respond, const RouteOptions& options = {});
  void AddJson(const std::string& method, const std::string& path, std::function<Json(const Call&)> respond);
  template <typename Part>  // of the service
  void AddCall(const std::string& path, Part& part, Json (Part::*call)(const std::string& owner, const Json& body));
  void AddTraining();
  void AddLists();
  void AddCheckpoints();
  void AddNotOffered();

  std::string OwnerOf(const HttpRequest& request) const;
  Json Pass(const Call& call);
  // Of a signed link, which needs no key.
  void SendFile(const HttpRequest& request, const std::shared_ptr<HttpReply>& reply) const;
  // Where a file of a checkpoint can be fetched for a while, without a key.
  std::string LinkOf(const Call& call, const CheckpointPath& path, const std::string& file) const;
  HttpResponse ArchiveLink(const Call& call) const;
  Json FileLinks(const Call& call) const;
  Json Keep(const Call& call);

  RouteTable<Respond> table_;
  RemoteService& service_;
  const Checkpoints& checkpoints_;
  const Callers& callers_;
  const Links links_;
};

}  // namespace trireme::tinker
