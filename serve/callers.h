// Callers: who may use the server: by API key, by the name it is called by, by the page that asks. Looks at headers
// alone, so that nothing of a stranger's body is read.
#pragma once

#include <set>
#include <string>
#include <utility>

#include "serve/api_keys.h"
#include "web/http/http.h"

namespace trireme {

class Callers {
 public:
  // hosts: names by which clients may call this server, in lower case and without a port; empty: any.
  // control: keys of the paths that change the server, instead of the others; none: the others do.
  Callers(ApiKeys keys, std::set<std::string> hosts, ApiKeys control)
      : keys_(std::move(keys)), control_(std::move(control)), hosts_(std::move(hosts)) {}

  // The request's tenant; throws an ApiError that refuses it. /health needs no key.
  std::string Admit(const HttpRequest& request) const;
  bool anyone() const { return keys_.empty(); }
  // Only by the name it is called by and the page that asks: for what needs no key.
  void CheckHost(const HttpRequest& request) const;

 private:
  const ApiKeys keys_, control_;
  const std::set<std::string> hosts_;
};

}  // namespace trireme
