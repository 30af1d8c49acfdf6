// What downloads need of a repository on a hub, whichever hub it is: its files at a revision, the digest and size of a
// file, its bytes. A refusal is an input error that says what to do; what may go away by itself is a runtime error. No
// torch.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "web/hub/hub_name.h"

namespace trireme {

struct HubFile {
  std::string name;
  std::string digest;  // 64 digits: sha256 of the bytes; 40: the blob's sha1 in git
  int64_t size = 0;
};

struct HubListing {
  std::string commit;  // 40 hexadecimal digits, or the revision where a hub does not say its commit
  std::vector<std::string> files;
  std::map<std::string, HubFile> described = {};  // by name, where the list already says it
};

class HubSource {
 public:
  virtual ~HubSource() = default;

  virtual HubListing List() const = 0;
  virtual HubFile Describe(const std::string& commit, const std::string& file) const = 0;

  // The bytes from `offset` on; `sink` takes the position of each part: from 0, if the server does not send parts of
  // files.
  using Sink = std::function<void(int64_t position, std::string_view bytes)>;
  virtual void Read(const std::string& commit, const HubFile& file, int64_t offset, const Sink& sink) const = 0;

  virtual const HubName& name() const = 0;
  virtual std::string who() const = 0;  // in errors: its page
  // The variables that say which server is asked and where files are kept.
  virtual const char* endpoint_variable() const = 0;
  virtual const char* cache_variable() const = 0;
};

}  // namespace trireme
