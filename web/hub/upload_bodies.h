// What a Hugging Face hub is sent to take files, and what it answers: the texts alone, without a connection. Answers
// that are none are input errors, which begin with `who`. No torch.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "web/hub/hub_name.h"
#include "web/hub/upload_file.h"

namespace trireme {

std::string RepositoryBody(const HubName& name, bool is_private);

// How the hub wants to have a file.
struct UploadMode {
  bool large = false;    // in its store of large files, named in the commit by its digest
  bool ignored = false;  // by a .gitignore
  std::string known;     // digest of the file that it has under this path; empty: none
};
// Asks for the modes of so many files at most.
inline constexpr size_t kMostAtOnce = 256;
std::string ModesBody(const std::vector<UploadFile>& files);
std::map<std::string, UploadMode> ParseModes(const std::string& json, const std::string& who);

struct LargeBlob {
  std::string digest;
  int64_t size = 0;
};
// Where a large file is sent that the store does not have.
struct LargeUpload {
  std::string address;  // of the whole, or where it is told that all parts have arrived
  std::vector<std::pair<std::string, std::string>> headers = {};
  std::vector<std::string> parts = {};  // addresses, in their order; none: one request has all
  int64_t part_bytes = 0;
  std::string verify = {};  // address that is told afterwards; empty: none
};
std::string StoreBody(const std::vector<LargeBlob>& blobs, const std::string& branch);
// By digest; those that the store has are not there.
std::map<std::string, LargeUpload> ParseStore(const std::string& json, const std::vector<LargeBlob>& blobs,
                                              const std::string& who);
std::string PartsBody(const std::string& digest, const std::vector<std::string>& tags);
std::string VerifyBody(const LargeBlob& blob);

// A file of the commit: its text, or of a large one its digest.
struct CommitFile {
  const UploadFile* file = nullptr;
  LargeBlob blob = {};  // an empty digest: it is small
};
std::string CommitBody(const std::string& message, const std::vector<CommitFile>& files);
// The page of the commit; empty if the hub does not say it.
std::string ParseCommit(const std::string& json);

}  // namespace trireme
