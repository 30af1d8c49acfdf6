#include "web/hub/hub_upload.h"

#include <algorithm>
#include <memory>
#include <span>
#include <utility>

#include "core/base/error.h"
#include "core/base/json.h"
#include "web/hub/hub_files.h"
#include "web/hub/retries.h"

namespace trireme {
namespace {

constexpr char kUploadLimit[] = "HF_HUB_DOWNLOAD_TIMEOUT", kStoreType[] = "application/vnd.git-lfs+json";
constexpr int64_t kPieceBytes = int64_t{1} << 20;  // that are in memory at once
constexpr double kLeastSeconds = 60;               // a store may take a while to answer for a large file

bool IsGood(int status) { return status >= 200 && status < 300; }

HttpTarget TargetAt(const std::string& address, const std::string& who) {
  const auto target = ParseAddress(address);
  if (!target) throw InputError(who, " names the address '", address.substr(0, 200), "'; wanted http[s]://HOST/PATH");
  return *target;
}

// What the hub says beside the status.
std::string ReasonOf(const HttpResult& result) {
  if (const std::string& said = result.header("x-error-message"); !said.empty()) return said;
  const Json answer = TryParseJson(result.body);
  const auto error = answer.is_object() ? answer.find("error") : answer.end();
  return answer.is_object() && error != answer.end() && error->is_string() ? error->get<std::string>()
                                                                           : result.body.substr(0, 200);
}

// Of a file, from `begin` on.
HttpUpload PiecesOf(const UploadFile& file, int64_t begin, int64_t bytes) {
  const auto sent = std::make_shared<int64_t>(0);
  return {.bytes = bytes, .next = [&file, begin, bytes, sent] {
            const int64_t count = std::min(kPieceBytes, bytes - *sent);
            std::string piece = file.Read(begin + *sent, count);
            *sent += count;
            return piece;
          }};
}

// Addresses of stores are signed, and hold for a while.
void RefuseOfStore(const HttpResult& result, const std::string& what, const std::string& who) {
  const std::string answered = Concat(what, ": the store ", who, " answered ", result.reason);
  if (result.status >= 500 || result.status == 408 || result.status == 429)
    throw RuntimeError(answered, "; try again later");
  throw InputError(answered, ": ", ReasonOf(result), "; push again: what it has already is not sent again");
}

}  // namespace

void HubUpload::RefuseUploadStatus(const HttpResult& result, const std::string& what) const {
  const std::string said = ReasonOf(result);
  const std::string answered = Concat(what, ": ", page(), " answered ", result.reason, said.empty() ? "" : ": " + said);
  const int status = result.status;
  if (status >= 500 || status == 408 || status == 429) throw RuntimeError(answered, "; try again later");
  if (status == 401)
    throw InputError(answered, "; ", server_.token.empty() ? "no token was sent" : "the token is not valid there",
                     "; set HF_TOKEN (hf auth login) to a token that may write");
  if (status == 403)
    throw InputError(answered, "; the token may not write to ", name_.id(), ": set HF_TOKEN to one that may");
  if (status == 404) throw InputError(answered, "; check the name, the branch, and HF_ENDPOINT");
  if (status == 409 || status == 412) throw InputError(answered, "; another commit has come between: push again");
  if (result.redirects())
    throw InputError(answered, "; it leads to ", result.header("location").substr(0, 200),
                     ": has the repository another name now?");
  throw InputError(answered, "; wanted 200");
}

HttpResult HubUpload::AskUntilAnswered(const HttpTarget& target, const std::string& what,
                                       const std::vector<int>& accepted,
                                       const std::function<HttpQuestion()>& question) const {
  for (Retries retries;;) {
    try {
      HttpQuestion asked = question();
      asked.who = target.text().substr(0, target.text().find('?'));  // what follows may be a signature
      asked.limit = kUploadLimit;
      asked.seconds = std::max(kLeastSeconds, server_.wait_seconds);
      asked.by_proxy = true;
      // The token is for the hub, not for its stores.
      if (SameOrigin(target, server_.endpoint)) asked.api_key = server_.token;
      HttpResult result = AskHttp(target, asked);
      if (IsGood(result.status) || std::ranges::find(accepted, result.status) != accepted.end()) return result;
      if (SameOrigin(target, server_.endpoint)) RefuseUploadStatus(result, what);
      RefuseOfStore(result, what, asked.who);
    } catch (const Error& error) {
      retries.Failed(error);
    }
  }
}

HttpResult HubUpload::Ask(const Request& request) const {
  HttpTarget target = server_.endpoint;
  if (request.address.empty()) {
    target.path += request.path;
  } else {
    target = TargetAt(request.address, page());
  }
  return AskUntilAnswered(target, request.what, request.accepted, [&] {
    HttpQuestion question{.body = request.body, .type = request.type};
    if (!request.accept.empty()) question.headers.emplace_back("Accept", request.accept);
    return question;
  });
}

void HubUpload::MakeRepository(bool is_private, const std::string& branch) const {
  constexpr int kExists = 409;
  Ask({.path = "/api/repos/create",
       .what = "the repository",
       .body = RepositoryBody(name_, is_private),
       .accepted = {kExists}});
  if (branch == "main") return;
  Ask({.path = Concat("/api/models/", name_.id(), "/branch/", PercentEncoded(branch)),
       .what = "the branch " + branch,
       .body = "{}",
       .accepted = {kExists}});
}

std::map<std::string, UploadMode> HubUpload::Modes(const std::vector<UploadFile>& files,
                                                   const std::string& branch) const {
  std::map<std::string, UploadMode> modes;
  for (size_t begin = 0; begin < files.size(); begin += kMostAtOnce) {
    const size_t end = std::min(files.size(), begin + kMostAtOnce);
    const HttpResult result = Ask({.path = Concat("/api/models/", name_.id(), "/preupload/", PercentEncoded(branch)),
                                   .what = "how files are to be sent",
                                   .body = ModesBody({files.begin() + static_cast<std::ptrdiff_t>(begin),
                                                      files.begin() + static_cast<std::ptrdiff_t>(end)})});
    modes.merge(ParseModes(result.body, page()));
  }
  return modes;
}

// The tag of what has arrived.
std::string HubUpload::SendPart(const UploadFile& file, const std::string& address, const LargeUpload& upload,
                                int64_t begin, int64_t bytes) const {
  const HttpTarget target = TargetAt(address, page());
  return AskUntilAnswered(target, file.path, {},
                          [&] {
                            HttpQuestion question{.upload = PiecesOf(file, begin, bytes), .method = "PUT"};
                            if (upload.part_bytes == 0) question.headers = upload.headers;
                            return question;
                          })
      .header("etag");
}

void HubUpload::SendToStore(const CommitFile& file, const LargeUpload& upload) const {
  const auto& [local, blob] = file;
  if (upload.part_bytes == 0) SendPart(*local, upload.address, upload, 0, blob.size);
  std::vector<std::string> tags;
  for (const std::string& part : upload.parts) {
    const int64_t begin = static_cast<int64_t>(tags.size()) * upload.part_bytes;
    tags.push_back(SendPart(*local, part, upload, begin, std::min(upload.part_bytes, blob.size - begin)));
    if (tags.back().empty())
      throw InputError(local->path, ": the store of ", page(), " gave part ", tags.size(),
                       " no ETag, which the hub wants to have");
  }
  if (!tags.empty())
    Ask({.address = upload.address,
         .what = local->path,
         .body = PartsBody(blob.digest, tags),
         .type = kStoreType,
         .accept = kStoreType});
  if (!upload.verify.empty()) Ask({.address = upload.verify, .what = local->path, .body = VerifyBody(blob)});
}

void HubUpload::SendLarge(const std::vector<CommitFile>& large, const std::string& branch, Pushed& pushed) const {
  for (size_t begin = 0; begin < large.size(); begin += kMostAtOnce) {
    const std::span<const CommitFile> some =
        std::span(large).subspan(begin, std::min(kMostAtOnce, large.size() - begin));
    std::vector<LargeBlob> blobs;
    for (const CommitFile& one : some) blobs.push_back(one.blob);
    const HttpResult result = Ask({.path = Concat("/", name_.id(), ".git/info/lfs/objects/batch"),
                                   .what = "where large files are to be sent",
                                   .body = StoreBody(blobs, branch),
                                   .type = kStoreType,
                                   .accept = kStoreType});
    std::map<std::string, LargeUpload> uploads = ParseStore(result.body, blobs, page());
    for (const CommitFile& one : some) {
      const auto upload = uploads.find(one.blob.digest);
      if (upload == uploads.end()) continue;  // it is there, from an earlier push or under another name
      tell_(Concat("sending ", one.file->path, ", ", one.blob.size, " bytes"));
      SendToStore(one, upload->second);
      pushed.sent_bytes += one.blob.size;
      uploads.erase(upload);  // two files may be equal
    }
  }
}

HubUpload::Pushed HubUpload::Push(const std::vector<UploadFile>& files, const std::string& branch,
                                  const std::string& message) const {
  const std::map<std::string, UploadMode> modes = Modes(files, branch);
  Pushed pushed;
  std::vector<CommitFile> changed, large;
  for (const UploadFile& file : files) {
    const auto found = modes.find(file.path);
    if (found == modes.end()) throw InputError(page(), " does not say how ", file.path, " is to be sent");
    const UploadMode& mode = found->second;
    const bool in_store = mode.large && file.Size() > 0;  // a store takes no empty files
    const std::string digest = in_store || !mode.known.empty() ? file.Digest(in_store ? 64 : 40) : "";
    pushed.ignored += mode.ignored;
    pushed.same += !mode.ignored && !mode.known.empty() && mode.known == digest;
    if (mode.ignored || (!mode.known.empty() && mode.known == digest)) continue;
    changed.push_back({&file, in_store ? LargeBlob{digest, file.Size()} : LargeBlob{}});
    if (in_store) large.push_back(changed.back());
  }
  if (changed.empty()) return pushed;
  SendLarge(large, branch, pushed);
  const HttpResult result = Ask({.path = Concat("/api/models/", name_.id(), "/commit/", PercentEncoded(branch)),
                                 .what = "the commit",
                                 .body = CommitBody(message, changed),
                                 .type = "application/x-ndjson"});
  pushed.files = static_cast<int64_t>(changed.size());
  pushed.page = ParseCommit(result.body);
  if (pushed.page.empty()) pushed.page = page();
  return pushed;
}

}  // namespace trireme
