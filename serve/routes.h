// Routes: what each path of the server does. Reads the request, hands work to the service. On the HTTP thread; waits
// for nothing.
#pragma once

#include <memory>
#include <string>

#include "serve/callers.h"
#include "serve/service.h"
#include "web/http/http.h"

namespace trireme {

class Routes {
 public:
  // All references outlive it.
  // adapter_directory: adapters below it may be loaded at run time; empty: none may.
  Routes(Service& service, const ServedModel& model, const Callers& callers, std::string adapter_directory);
  void Handle(HttpRequest request, std::shared_ptr<HttpReply> reply);

 private:
  HttpAnswer Dispatch(const HttpRequest& request, const std::string& tenant, const std::shared_ptr<HttpReply>& reply,
                      const std::map<std::string, std::string>& headers, bool& later);
  HttpAnswer Models(const std::string& path) const;
  void ChangeAdapter(bool load, const Json& body, std::shared_ptr<HttpReply> reply,
                     std::map<std::string, std::string> headers);

  Service& service_;
  const ServedModel& model_;
  const Callers& callers_;
  const std::string adapter_directory_;
};

}  // namespace trireme
