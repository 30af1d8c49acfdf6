// What a Hugging Face hub is asked: the files of a model or a data set at a revision, the digest and size of a file,
// its bytes. A refusal is an input error that says what to do; what may go away by itself is a runtime error. Writes
// nothing. No torch.
#pragma once

#include <string>

#include "web/http/http_message.h"
#include "web/hub/hub_settings.h"
#include "web/hub/hub_source.h"

namespace trireme {

// Of answers.
HubListing ParseHubListing(const std::string& json, const std::string& who);
HubFile ParseHubFile(const std::string& name, const HttpHead& head, const std::string& who);

class HubApi : public HubSource {
 public:
  HubApi(HubName name, HubServer server) : name_(std::move(name)), server_(std::move(server)) {}

  HubListing List() const override;
  HubFile Describe(const std::string& commit, const std::string& file) const override;
  void Read(const std::string& commit, const HubFile& file, int64_t offset, const Sink& sink) const override;

  const HubName& name() const override { return name_; }
  std::string who() const override { return server_.endpoint.text() + "/" + Page(); }
  const char* endpoint_variable() const override { return "HF_ENDPOINT"; }
  const char* cache_variable() const override { return "HF_HUB_CACHE"; }

 private:
  std::string Page() const { return (name_.kind == HubKind::kModel ? "" : "datasets/") + name_.id(); }
  HttpTarget TargetOf(const std::string& commit, const std::string& file) const;
  HttpTarget TargetOf(const std::string& path) const;
  void RefuseStatus(const HttpHead& head, const std::string& what) const;

  const HubName name_;
  const HubServer server_;
};

}  // namespace trireme
