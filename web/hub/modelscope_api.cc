#include "web/hub/modelscope_api.h"

#include <algorithm>
#include <utility>

#include "core/base/error.h"
#include "core/base/json.h"
#include "web/http/redirects.h"
#include "web/hub/hub_files.h"
#include "web/hub/modelscope_cache.h"
#include "web/hub/part_position.h"
#include "web/hub/retries.h"

namespace trireme {
namespace {

// The server cuts the list of a model's files here, and does not say so.
constexpr int64_t kMostListed = 3000;
constexpr int64_t kPage = 200;
constexpr int64_t kMostPages = 5000;

std::string TextAt(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

int64_t NumberAt(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_number_integer() ? found->get<int64_t>() : -1;
}

HubFile ReadFile(const Json& entry, const std::string& who) {
  HubFile file{TextAt(entry, "Path"), TextAt(entry, "Sha256"), NumberAt(entry, "Size")};
  const bool digest =
      file.digest.size() == 64 && file.digest.find_first_not_of("0123456789abcdef") == std::string::npos;
  if (!file.name.empty() && digest && file.size >= 0) return file;
  throw InputError(who, ": lists ", entry.dump().substr(0, 120),
                   "; wanted its Path, Sha256 and Size: is MODELSCOPE_ENDPOINT a hub?");
}

// What it says about a refusal.
std::string MessageOf(const Json& answer) {
  const std::string message = answer.is_object() ? TextAt(answer, "Message") : "";
  return message.empty() ? "no reason" : message.substr(0, 200);
}

}  // namespace

ModelScopePage ParseModelScopePage(const std::string& json, const std::string& who) {
  const Json answer = TryParseJson(json);
  if (answer.is_object() && answer.contains("Success") && answer["Success"] == false)
    throw InputError(who, " answered: ", MessageOf(answer), "; check the name, or set MODELSCOPE_API_TOKEN");
  const Json data = answer.is_object() ? answer.value("Data", Json()) : Json();
  const Json files = data.is_object() ? data.value("Files", Json()) : data;
  if (!files.is_array() && !(data.is_object() && data.contains("Files") && files.is_null())) {
    throw InputError(who, " answered '", json.substr(0, 80),
                     "'; wanted the files of a repository: is MODELSCOPE_ENDPOINT a hub?");
  }
  ModelScopePage page{{}, std::ssize(files), NumberAt(answer, "TotalCount")};
  if (page.total < 0 && data.is_object()) page.total = NumberAt(data, "TotalCount");
  for (const Json& entry : files) {
    if (!entry.is_object() || TextAt(entry, "Type") == "tree") continue;
    page.files.push_back(ReadFile(entry, who));
  }
  return page;
}

HttpTarget ModelScopeApi::TargetOf(const std::string& question) const {
  HttpTarget target = server_.endpoint;
  target.path += "/api/v1/" + name_.kinds() + "/" + name_.id() + "/" + question;
  return target;
}

void ModelScopeApi::RefuseStatus(const HttpHead& head, const std::string& body, const std::string& what) const {
  const std::string answered = Concat(what, ": ", who(), " answered ", head.reason);
  if (head.status >= 500 || head.status == 408 || head.status == 429) throw RuntimeError(answered, "; try again later");
  const std::string message = MessageOf(TryParseJson(body));
  if (head.status == 404)
    throw InputError(answered, " (", message, "): there is no such ", name_.noun(), ", or no revision '",
                     ModelScopeRevision(name_), "'; check the name, and MODELSCOPE_ENDPOINT");
  if (head.status == 401 || head.status == 403)
    throw InputError(answered, " (", message, "): it is private or gated, and ",
                     server_.token.empty() ? "no token was sent" : "the token's account has no access",
                     "; set MODELSCOPE_API_TOKEN to the token of an account that may read it");
  throw InputError(answered, " (", message, "); wanted 200; check MODELSCOPE_ENDPOINT");
}

ModelScopePage ModelScopeApi::AskPage(const std::string& question) const {
  const HttpTarget target = TargetOf(question);
  for (Retries retries;;) {  // a server that cannot be reached is not asked again: there may be no network at all
    HttpQuestion asked{.api_key = server_.token,
                       .who = server_.endpoint.text(),
                       .limit = "HF_HUB_ETAG_TIMEOUT",
                       .seconds = server_.answer_seconds,
                       .by_proxy = true};
    if (!server_.token.empty()) asked.headers.emplace_back("Cookie", Cookie());
    const HttpResult result = AskFollowing(target, asked);
    if (result.status == 200) return ParseModelScopePage(result.body, who());
    try {
      RefuseStatus(result, result.body, "its list of files");
    } catch (const Error& error) {
      retries.Failed(error);
    }
  }
}

HubListing ModelScopeApi::List() const {
  const bool pages = name_.kind == HubKind::kDataSet;
  const std::string question = Concat(pages ? "repo/tree" : "repo/files",
                                      "?Revision=", PercentEncoded(ModelScopeRevision(name_)), "&Recursive=True");
  HubListing listing{ModelScopeRevision(name_), {}, {}};
  int64_t entries = 0;
  for (int64_t number = 1; number <= kMostPages; ++number) {
    const ModelScopePage page =
        AskPage(pages ? Concat(question, "&PageNumber=", number, "&PageSize=", kPage) : question);
    for (const HubFile& file : page.files) {
      if (listing.described.emplace(file.name, file).second) listing.files.push_back(file.name);
    }
    entries += page.entries;
    if (!pages && page.entries >= kMostListed)
      throw InputError(who(), " lists ", page.entries, " files, and perhaps not all; use modelscope download");
    if (!pages || (page.entries < kPage && entries >= page.total)) return listing;
    if (page.entries == 0)
      throw InputError(who(), " lists ", entries, " of its ", page.total, " files; try again later");
  }
  throw InputError(who(), " has more than ", kMostPages * kPage, " files; use modelscope download");
}

HubFile ModelScopeApi::Describe(const std::string&, const std::string& file) const {
  throw InputError(who(), " has no file ", file);  // its list describes all
}

void ModelScopeApi::Read(const std::string& commit, const HubFile& file, int64_t offset, const Sink& sink) const {
  const HttpTarget target =
      TargetOf(Concat("repo?Revision=", PercentEncoded(commit), "&FilePath=", PercentEncoded(file.name)));
  HttpQuestion question{.api_key = server_.token,
                        .who = who() + ": " + file.name,
                        .limit = "HF_HUB_DOWNLOAD_TIMEOUT",
                        .seconds = server_.wait_seconds,
                        .by_proxy = true};
  if (!server_.token.empty()) question.headers.emplace_back("Cookie", Cookie());
  if (offset > 0) question.headers.emplace_back("Range", Concat("bytes=", offset, "-"));
  PartPosition position(question.who, offset);
  question.sink = [&](const HttpHead& head, std::string_view bytes) { position.Take(head, bytes, sink); };
  const HttpResult result = AskFollowing(target, question);
  if (result.status != 200 && result.status != 206) RefuseStatus(result, result.body, file.name);
}

}  // namespace trireme
