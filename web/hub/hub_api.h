// What a hub is asked: the files of a model at a revision, the digest and size of a file, its bytes. A refusal is an
// input error that says what to do; what may go away by itself is a runtime error. Writes nothing. No torch.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "web/http/http_message.h"
#include "web/hub/hub_name.h"
#include "web/hub/hub_settings.h"

namespace trireme {

struct HubListing {
  std::string commit;  // 40 hexadecimal digits
  std::vector<std::string> files;
};

struct HubFile {
  std::string name;
  std::string digest;  // 64 digits: sha256 of the bytes; 40: the blob's sha1 in git
  int64_t size = 0;
};

// Of answers.
HubListing ParseHubListing(const std::string& json, const std::string& who);
HubFile ParseHubFile(const std::string& name, const HttpHead& head, const std::string& who);

class HubApi {
 public:
  HubApi(HubName name, HubServer server) : name_(std::move(name)), server_(std::move(server)) {}

  HubListing List() const;
  HubFile Describe(const std::string& commit, const std::string& file) const;

  // The bytes from `offset` on; `sink` takes the position of each part: from 0, if the server does not send parts of
  // files.
  using Sink = std::function<void(int64_t position, std::string_view bytes)>;
  void Read(const std::string& commit, const HubFile& file, int64_t offset, const Sink& sink) const;

  const HubName& name() const { return name_; }
  std::string who() const { return server_.endpoint.text() + "/" + name_.id(); }

 private:
  HttpTarget TargetOf(const std::string& path) const;
  void RefuseStatus(const HttpHead& head, const std::string& what) const;

  const HubName name_;
  const HubServer server_;
};

}  // namespace trireme
