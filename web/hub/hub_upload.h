// Sends files to a model's repository on a Hugging Face hub, in one commit: small ones within it, large ones to the
// hub's store before, except those that it has. Decides nothing about which. No torch.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "web/http/http_client.h"
#include "web/hub/hub_settings.h"
#include "web/hub/upload_bodies.h"

namespace trireme {

class HubUpload {
 public:
  // `tell`: takes a line for each large file that is sent.
  HubUpload(HubName name, HubServer server, std::function<void(const std::string&)> tell)
      : name_(std::move(name)), server_(std::move(server)), tell_(std::move(tell)) {}

  // Makes the repository and the branch where they do not exist. An existing repository stays as public as it is.
  void MakeRepository(bool is_private, const std::string& branch) const;

  struct Pushed {
    std::string page;                          // of the commit; empty: nothing has changed, and there is none
    int64_t files = 0, same = 0, ignored = 0;  // in the commit; as the repository has them; by its .gitignore
    int64_t sent_bytes = 0;                    // of large files
  };
  Pushed Push(const std::vector<UploadFile>& files, const std::string& branch, const std::string& message) const;

  std::string page() const { return server_.endpoint.text() + "/" + name_.id(); }

 private:
  struct Request {
    std::string address = {};  // whole; empty: `path` on the hub
    std::string path = {};
    std::string what = {};  // for errors
    std::string body = {}, type = "application/json", accept = {};
    std::vector<int> accepted = {};  // statuses beside 2xx
  };
  HttpResult Ask(const Request& request) const;
  // Again after failures that may go away by themselves.
  HttpResult AskUntilAnswered(const HttpTarget& target, const std::string& what, const std::vector<int>& accepted,
                              const std::function<HttpQuestion()>& question) const;
  void RefuseUploadStatus(const HttpResult& result, const std::string& what) const;

  std::map<std::string, UploadMode> Modes(const std::vector<UploadFile>& files, const std::string& branch) const;
  void SendLarge(const std::vector<CommitFile>& large, const std::string& branch, Pushed& pushed) const;
  void SendToStore(const CommitFile& file, const LargeUpload& upload) const;
  std::string SendPart(const UploadFile& file, const std::string& address, const LargeUpload& upload, int64_t begin,
                       int64_t bytes) const;

  const HubName name_;
  const HubServer server_;
  const std::function<void(const std::string&)> tell_;
};

}  // namespace trireme
