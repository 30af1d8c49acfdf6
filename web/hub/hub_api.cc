#include "web/hub/hub_api.h"

#include <algorithm>
#include <charconv>

#include "core/base/error.h"
#include "core/base/json.h"
#include "web/http/redirects.h"
#include "web/hub/hub_files.h"
#include "web/hub/part_position.h"
#include "web/hub/retries.h"

namespace trireme {
namespace {

constexpr char kResponseLimit[] = "HF_HUB_ETAG_TIMEOUT", kWaitLimit[] = "HF_HUB_DOWNLOAD_TIMEOUT";

bool IsHex(const std::string& text, size_t digits) {
  return text.size() == digits &&
         std::ranges::all_of(text, [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

// W/"abc" and "abc" are abc.
std::string PlainTag(std::string tag) {
  if (tag.starts_with("W/")) tag.erase(0, 2);
  std::erase(tag, '"');
  return tag;
}

const std::string& TagOf(const HttpHead& head) {
  const std::string& linked = head.header("x-linked-etag");
  return linked.empty() ? head.header("etag") : linked;
}

int64_t SizeOf(const HttpHead& head) {
  const std::string& linked = head.header("x-linked-size");
  if (linked.empty()) return head.redirects() ? -1 : head.content_length();
  int64_t size = -1;
  std::from_chars(linked.data(), linked.data() + linked.size(), size);
  return size;
}

bool IsTemporary(int status) { return status >= 500 || status == 408 || status == 429; }

}  // namespace

HubListing ParseHubListing(const std::string& json, const std::string& who) {
  const Json answer = TryParseJson(json);
  HubListing listing;
  if (answer.is_object() && answer.contains("sha") && answer["sha"].is_string())
    listing.commit = answer["sha"].get<std::string>();
  const auto siblings = answer.is_object() ? answer.find("siblings") : answer.end();
  if (!IsHex(listing.commit, 40) || siblings == answer.end() || !siblings->is_array()) {
    throw InputError(who, " answered '", json.substr(0, 80),
                     "'; wanted a commit and the files of a model: is HF_ENDPOINT a hub?");
  }
  for (const Json& file : *siblings) {
    if (file.is_object() && file.contains("rfilename") && file["rfilename"].is_string())
      listing.files.push_back(file["rfilename"]);
  }
  return listing;
}

HubFile ParseHubFile(const std::string& name, const HttpHead& head, const std::string& who) {
  const HubFile file{name, PlainTag(TagOf(head)), SizeOf(head)};
  const bool digest = IsHex(file.digest, 40) || IsHex(file.digest, 64);
  if (digest && file.size >= 0) return file;
  throw InputError(who, ": ", name, " has the ETag '", file.digest.substr(0, 80), "' and the size '", file.size,
                   "'; wanted a sha1 or sha256 and a number of bytes: is HF_ENDPOINT a hub?");
}

HttpTarget HubApi::TargetOf(const std::string& path) const {
  HttpTarget target = server_.endpoint;
  target.path += path;
  return target;
}

HttpTarget HubApi::TargetOf(const std::string& commit, const std::string& file) const {
  return TargetOf(Concat("/", Page(), "/resolve/", commit, "/", PercentEncodedPath(file)));
}

void HubApi::RefuseStatus(const HttpHead& head, const std::string& what) const {
  const std::string answered = Concat(what, ": ", who(), " answered ", head.reason, ": ");
  const std::string& code = head.header("x-error-code");
  if (IsTemporary(head.status)) throw RuntimeError(what, ": ", who(), " answered ", head.reason, "; try again later");
  if (code == "RevisionNotFound")
    throw InputError(answered, "it has no revision '", name_.revision, "'; name another after the ",
                     name_.kind == HubKind::kModel ? "@" : "?revision=");
  if (head.status == 401 && code != "GatedRepo") {
    throw InputError(
        answered, "there is no such ", name_.noun(),
        ", or it is private or gated; check the name, or set HF_TOKEN (hf auth login) to the token of an account that ",
        "may read it");
  }
  if (head.status == 401 || head.status == 403) {
    throw InputError(answered, "it is gated, and ",
                     server_.token.empty() ? "no token was sent" : "the token's account has no access",
                     "; request access on ", who(),
                     ", and set HF_TOKEN (hf auth login) to the token of an account that has it");
  }
  if (head.status == 404)
    throw InputError(answered, "there is no such ", name_.noun(), "; check the name, and HF_ENDPOINT");
  throw InputError(answered, "wanted 200; check HF_ENDPOINT");
}

HubListing HubApi::List() const {
  const std::string revision = name_.revision.empty() ? "main" : name_.revision;
  const HttpTarget target =
      TargetOf(Concat("/api/", name_.kinds(), "/", name_.id(), "/revision/", PercentEncoded(revision)));
  for (Retries retries;;) {  // a server that cannot be reached is not asked again: there may be no network at all
    const HttpResult result = AskFollowing(target, {.api_key = server_.token,
                                                    .who = server_.endpoint.text(),
                                                    .limit = kResponseLimit,
                                                    .seconds = server_.answer_seconds,
                                                    .by_proxy = true});
    if (result.status == 200) return ParseHubListing(result.body, target.text());
    try {
      RefuseStatus(result, "its list of files");
    } catch (const Error& error) {
      retries.Failed(error);
    }
  }
}

HubFile HubApi::Describe(const std::string& commit, const std::string& file) const {
  const HttpTarget target = TargetOf(commit, file);
  for (Retries retries;;) {
    try {
      // Storage servers have digests of their own: what the hub says of a file stands in the redirection to them.
      const HttpResult result = AskFollowing(target,
                                             {.api_key = server_.token,
                                              .who = target.text(),
                                              .limit = kResponseLimit,
                                              .seconds = server_.answer_seconds,
                                              .by_proxy = true,
                                              .method = "HEAD"},
                                             [](const HttpHead& head) { return !TagOf(head).empty(); });
      if (result.status != 200 && !result.redirects()) RefuseStatus(result, file);
      return ParseHubFile(file, result, target.text());
    } catch (const Error& error) {
      retries.Failed(error);
    }
  }
}

void HubApi::Read(const std::string& commit, const HubFile& file, int64_t offset, const Sink& sink) const {
  const HttpTarget target = TargetOf(commit, file.name);
  HttpQuestion question{.api_key = server_.token,
                        .who = target.text(),
                        .limit = kWaitLimit,
                        .seconds = server_.wait_seconds,
                        .by_proxy = true};
  if (offset > 0) question.headers.emplace_back("Range", Concat("bytes=", offset, "-"));
  PartPosition position(target.text(), offset);
  question.sink = [&](const HttpHead& head, std::string_view bytes) { position.Take(head, bytes, sink); };
  const HttpResult result = AskFollowing(target, question);
  if (result.status != 200 && result.status != 206) RefuseStatus(result, file.name);
}

}  // namespace trireme
