// ModelScope's server: what it is asked, and its answers taken apart. Writes nothing. No torch.
#pragma once

#include <string>
#include <vector>

#include "web/http/http_message.h"
#include "web/hub/hub_settings.h"
#include "web/hub/hub_source.h"

namespace trireme {

// The files of an answer, without folders; of a data set's `total` is how many entries there are on all pages. A
// refusal that comes with status 200 is an input error, too.
struct ModelScopePage {
  std::vector<HubFile> files;
  int64_t entries = 0, total = -1;
};
ModelScopePage ParseModelScopePage(const std::string& json, const std::string& who);

class ModelScopeApi : public HubSource {
 public:
  ModelScopeApi(HubName name, HubServer server) : name_(std::move(name)), server_(std::move(server)) {}

  HubListing List() const override;
  HubFile Describe(const std::string& commit, const std::string& file) const override;
  void Read(const std::string& commit, const HubFile& file, int64_t offset, const Sink& sink) const override;

  const HubName& name() const override { return name_; }
  std::string who() const override { return server_.endpoint.text() + "/" + name_.kinds() + "/" + name_.id(); }
  const char* endpoint_variable() const override { return "MODELSCOPE_ENDPOINT"; }
  const char* cache_variable() const override { return "MODELSCOPE_CACHE"; }

 private:
  HttpTarget TargetOf(const std::string& question) const;
  std::string Cookie() const { return server_.token.empty() ? "" : "m_session_id=" + server_.token; }
  ModelScopePage AskPage(const std::string& question) const;
  void RefuseStatus(const HttpHead& head, const std::string& body, const std::string& what) const;

  const HubName name_;
  const HubServer server_;
};

}  // namespace trireme
