// Routes: what each path of the server does. Checks who asks (key, Host, Origin), reads the request, hands
// work to the service. On the HTTP thread; waits for nothing.
#pragma once

#include <memory>
#include <set>
#include <string>

#include "serve/api_keys.h"
#include "serve/http.h"
#include "serve/service.h"

namespace trireme {

struct RouteOptions {
  // Names by which clients may call this server, in lower case and without a port; empty: any.
  std::set<std::string> hosts;
};

class Routes {
 public:
  // All references outlive it.
  Routes(Service& service, const ServedModel& model, const ApiKeys& keys, RouteOptions options);
  void Handle(HttpRequest request, std::shared_ptr<HttpReply> reply);

 private:
  HttpAnswer Dispatch(const HttpRequest& request, const std::string& tenant,
                      const std::shared_ptr<HttpReply>& reply,
                      const std::map<std::string, std::string>& headers, bool& later);
  void CheckCaller(const HttpRequest& request) const;
  Json ModelJson() const;

  Service& service_;
  const ServedModel& model_;
  const ApiKeys& keys_;
  const RouteOptions options_;
};

}  // namespace trireme
