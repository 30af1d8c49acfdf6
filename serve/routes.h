// Routes: what each path of the server does. Reads the request, hands work to the service. On the HTTP thread; waits
// for nothing.
#pragma once

#include <memory>
#include <string>

#include "serve/callers.h"
#include "serve/http.h"
#include "serve/service.h"

namespace trireme {

class Routes {
 public:
  // All references outlive it.
  Routes(Service& service, const ServedModel& model, const Callers& callers);
  void Handle(HttpRequest request, std::shared_ptr<HttpReply> reply);

 private:
  HttpAnswer Dispatch(const HttpRequest& request, const std::string& tenant,
                      const std::shared_ptr<HttpReply>& reply,
                      const std::map<std::string, std::string>& headers, bool& later);
  Json ModelJson() const;

  Service& service_;
  const ServedModel& model_;
  const Callers& callers_;
};

}  // namespace trireme
