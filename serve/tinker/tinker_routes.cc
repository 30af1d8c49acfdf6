#include "serve/tinker/tinker_routes.h"

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <sstream>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/base/log.h"
#include "serve/fields.h"

namespace trireme::tinker {
namespace {

constexpr char kProto[] = "application/x-protobuf";
constexpr char kFiles[] = "files/", kArchive[] = "archive.tar";
constexpr char kBearer[] = "Bearer ";
constexpr int64_t kLinkSeconds = 3600;

HttpResponse DetailOf(const ApiError& error) {
  HttpResponse response = ResponseOf(error);
  response.body = JsonLine({{"detail", error.message}});
  return response;
}

Json JsonBody(const HttpRequest& request) {
  if (request.body.empty()) return Json::object();
  Json body = TryParseJson(request.body);
  if (!body.is_object()) throw ApiError{.status = 422, .message = "the body is not a JSON object"};
  return body;
}

// "limit=20&offset=0".
int64_t PageNumber(const HttpRequest& request, const std::string& name, int64_t otherwise) {
  return std::min<int64_t>(QueryNumber(request, name).value_or(otherwise), 10'000);
}

// As HTTP writes it: "Sun, 06 Nov 1994 08:49:37 GMT".
std::string HttpDate(int64_t seconds) {
  const std::time_t time = seconds;
  std::tm parts = {};
  gmtime_r(&time, &parts);
  char text[48];
  std::strftime(text, sizeof(text), "%a, %d %b %Y %H:%M:%S GMT", &parts);
  return text;
}

// Of "…/training_runs/{run}/checkpoints/{kind}/{name}…".
CheckpointPath PathOf(const PathValues& values) {
  return ParsePath(Concat("tinker://", values.at("run"), "/", values.at("kind"), "/", values.at("name")));
}

HttpResponse JsonResponse(const Json& json) { return {.body = JsonLine(json)}; }

}  // namespace

TinkerRoutes::TinkerRoutes(RemoteService& service, const Checkpoints& checkpoints, const Callers& callers)
    : service_(service), checkpoints_(checkpoints), callers_(callers) {
  AddNotOffered();  // first: some of their paths fit others, too
  AddTraining();
  AddCheckpoints();
  AddLists();
}

void TinkerRoutes::Add(const std::string& method, const std::string& path, Respond respond,
                       const RouteOptions& options) {
  table_.Add(method, kTinkerPrefix + path, std::move(respond), options);
}

void TinkerRoutes::AddJson(const std::string& method, const std::string& path,
                           std::function<Json(const Call&)> respond) {
  Add(method, path, [respond = std::move(respond)](const Call& call) { return JsonResponse(respond(call)); });
}

template <typename Part>
void TinkerRoutes::AddCall(const std::string& path, Part& part, Json (Part::*call)(const std::string&, const Json&)) {
  AddJson("POST", path,
          [&part, call](const Call& request) { return (part.*call)(request.owner, JsonBody(request.request)); });
}

// What clients of the maker's service ask for; here they get a clear response.
void TinkerRoutes::AddNotOffered() {
  const std::pair<const char*, const char*> others[] = {
      {"audit", "an audit log"},
      {"billing/{rest...}", "billing"},
      {"copy_weights", "copying checkpoints"},
      {"create_custom_loss", "a loss that runs in the server"},
      {"auth/token", "an exchange of keys for tokens"},
      {"join_sampling_session", "joining a sampling session"},
      {"sessions/search", "a search of sessions"},
      {"sessions/{session}/project", "a session's project"},
      {"sessions/{session}/trace_export", "a session's trace"},
      {"training_runs/{run}/checkpoints/{kind}/{name}/publish", "publishing checkpoints"}};
  for (const auto& [path, what] : others) {
    Add("*", path, [what = std::string(what)](const Call&) -> HttpResponse {
      throw ApiError{.status = 400, .message = what + " is not offered by this server"};
    });
  }
}

void TinkerRoutes::AddTraining() {
  AddCall("create_session", service_.sessions, &Sessions::Create);
  AddCall("session_heartbeat", service_.sessions, &Sessions::Heartbeat);
  AddCall("create_model", service_.models, &TrainingModels::Create);
  AddCall("unload_model", service_.models, &TrainingModels::Unload);
  AddCall("get_info", service_.models, &TrainingModels::Info);
  AddCall("optim_step", service_.models, &TrainingModels::Step);
  AddCall("save_weights", service_.models, &TrainingModels::Save);
  AddCall("load_weights", service_.models, &TrainingModels::Load);
  AddCall("save_weights_for_sampler", service_.models, &TrainingModels::SaveForSampler);
  AddCall("save_weights_external", service_.models, &TrainingModels::SaveExternal);
  AddCall("create_sampling_session", service_.samplers, &Samplers::Create);
  AddCall("asample", service_.samplers, &Samplers::Sample);
  AddCall("cancel_future", service_.samplers, &Samplers::Cancel);
  AddJson("POST", "forward", [this](const Call& call) {
    return service_.models.Pass(call.owner, JsonBody(call.request), "forward_input");
  });
  AddJson("POST", "forward_backward", [this](const Call& call) { return Pass(call); });
  AddJson("POST", "weights_info",
          [this](const Call& call) { return service_.checkpoints.WeightsInfo(call.owner, JsonBody(call.request)); });
  Add("POST", "retrieve_future", [this](const Call& call) -> std::optional<HttpResponse> {
    const bool proto = call.request.header("accept").find(kProto) != std::string::npos;
    service_.Retrieve(call.owner, JsonBody(call.request), proto, call.reply);
    return std::nullopt;
  });
  Add("POST", "retrieve_futures", [this](const Call& call) -> std::optional<HttpResponse> {
    service_.samplers.Retrieve(call.owner, JsonBody(call.request), call.reply);
    return std::nullopt;
  });
  AddJson("POST", "telemetry", [](const Call&) { return Json{{"status", "accepted"}}; });
  // One poll for all samples of a sampler; fewer connections, of which a server has so many.
  AddJson("POST", "client/config", [](const Call&) {
    return Json{{"sample_use_retrieve_futures", true}, {"sample_max_concurrent_requests", 256}};
  });
  AddJson("POST", "client/dynamic_config", [](const Call&) { return Json{{"sample_cancel_enabled", true}}; });
}

void TinkerRoutes::AddLists() {
  AddJson("GET", "healthz", [](const Call&) { return Json{{"status", "ok"}}; });
  AddJson("GET", "get_server_capabilities", [this](const Call&) { return service_.Capabilities(); });
  AddJson("GET", "status", [this](const Call& call) {
    return service_.Status(callers_.anyone() ? std::nullopt : std::optional(call.owner));
  });
  // In pages: at most so many from `offset` on.
  const auto add_pages = [this](const std::string& path, int64_t limit, auto list) {
    AddJson("GET", path, [limit, list](const Call& call) {
      return list(call, PageNumber(call.request, "limit", limit), PageNumber(call.request, "offset", 0));
    });
  };
  add_pages("training_runs", 20, [this](const Call& call, int64_t limit, int64_t offset) {
    return service_.models.Runs(call.owner, limit, offset);
  });
  add_pages("checkpoints", 100, [this](const Call& call, int64_t limit, int64_t offset) {
    return service_.checkpoints.List(call.owner, "", limit, offset);
  });
  add_pages("sessions", 20, [this](const Call& call, int64_t limit, int64_t offset) {
    return service_.sessions.List(call.owner, limit, offset);
  });
  add_pages("training_runs/{run}/checkpoints", 1000, [this](const Call& call, int64_t limit, int64_t offset) {
    return service_.checkpoints.List(call.owner, call.values.at("run"), limit, offset);
  });
  AddJson("GET", "training_runs/{run}",
          [this](const Call& call) { return service_.models.Run(call.owner, call.values.at("run")); });
  AddJson("GET", "sessions/{session}",
          [this](const Call& call) { return service_.SessionInfo(call.owner, call.values.at("session")); });
  AddJson("POST", "sessions/{session}/finish",
          [this](const Call& call) { return service_.sessions.Finish(call.owner, call.values.at("session")); });
  AddJson("GET", "samplers/{sampler...}",
          [this](const Call& call) { return service_.samplers.Info(call.owner, call.values.at("sampler")); });
}

// What may be done with one checkpoint.
void TinkerRoutes::AddCheckpoints() {
  const std::string one = "training_runs/{run}/checkpoints/{kind}/{name}";
  AddJson("DELETE", one,
          [this](const Call& call) { return service_.checkpoints.Remove(call.owner, PathOf(call.values)); });
  Add("GET", one + "/archive", [this](const Call& call) { return ArchiveLink(call); });
  AddJson("GET", one + "/external_weights_urls", [this](const Call& call) { return FileLinks(call); });
  AddJson("PUT", one + "/ttl", [this](const Call& call) { return Keep(call); });
  const auto send_file = [this](const Call& call) -> std::optional<HttpResponse> {
    SendFile(call.request, call.reply);
    return std::nullopt;
  };
  Add("GET", std::string(kFiles) + "{path...}", send_file, {.head = false});
}

HttpRequest TinkerRoutes::WithKey(HttpRequest request) {
  const std::string bearer = kBearer;
  std::string key = request.header("x-api-key");
  for (const char* name : {"authorization", "twinkle-authorization"}) {
    const std::string value = request.header(name);
    if (key.empty() && value.starts_with(bearer)) key = value.substr(bearer.size());
  }
  if (!key.empty()) request.headers["authorization"] = bearer + key;
  return request;
}

bool TinkerRoutes::NeedsNoKey(const HttpRequest& request) {
  return request.method == "GET" && request.path().starts_with(std::string(kTinkerPrefix) + kFiles);
}

// Without keys of its own the server takes every caller, and each key owns what was made with it.
std::string TinkerRoutes::OwnerOf(const HttpRequest& request) const {
  const HttpRequest with_key = WithKey(request);
  callers_.Admit(with_key);
  const std::string key = with_key.header("authorization");
  return checkpoints_.OwnerOf(key.starts_with(kBearer) ? key.substr(std::string(kBearer).size()) : "");
}

void TinkerRoutes::Handle(HttpRequest request, std::shared_ptr<HttpReply> reply) {
  std::optional<HttpResponse> response;
  try {
    std::string owner;
    if (NeedsNoKey(request)) {
      callers_.CheckHost(request);
    } else {
      owner = OwnerOf(request);
    }
    const auto [handler, values] = table_.Find(request);
    response = handler({request, values, owner, reply});
  } catch (const ApiError& error) {
    response = DetailOf(error);
  } catch (const std::exception& error) {  // a disk that is full, say: the server goes on
    TRIREME_LOG(ERROR) << "remote training: " << request.path() << ": " << error.what();
    response = DetailOf({.status = 400, .message = "the server could not do it; its log says why"});
  }
  if (response) reply->Send(*std::move(response));
}

Json TinkerRoutes::Pass(const Call& call) {
  const bool proto = LowerCase(call.request.header("content-type")).starts_with(kProto);
  if (proto) return service_.models.PassProto(call.owner, call.request.body);
  return service_.models.Pass(call.owner, JsonBody(call.request), "forward_backward_input");
}

std::string TinkerRoutes::LinkOf(const Call& call, const CheckpointPath& path, const std::string& file) const {
  const std::string place =
      Concat(kTinkerPrefix, kFiles, call.owner, "/", path.run, "/", path.kind, "/", path.name, "/", file);
  return Concat(call.request.secure ? "https" : "http", "://", call.request.header("host"),
                links_.Sign(place, checkpoints_.now() + kLinkSeconds));
}

void TinkerRoutes::SendFile(const HttpRequest& request, const std::shared_ptr<HttpReply>& reply) const {
  if (!links_.Check(request.target, checkpoints_.now())) {
    throw ApiError{.status = 403, .message = "this link is not valid any more; ask for a new one"};
  }
  // A right signature: the path is one that LinkOf made.
  std::vector<std::string> parts;
  std::istringstream rest(request.path().substr(std::string(kTinkerPrefix).size() + std::string(kFiles).size()));
  for (std::string part; std::getline(rest, part, '/');) parts.push_back(part);
  const CheckpointPath path{parts.at(1), parts.at(2), parts.at(3)};
  const std::vector<std::filesystem::path> files = checkpoints_.FilesOf(parts.at(0), path);
  auto stream = [&] {
    // The mark is what clients look for before they trust an archive.
    if (parts.at(4) == kArchive) return std::make_shared<FileStream>(FileStream::OfTar(files, {"checkpoint_complete"}));
    for (const std::filesystem::path& file : files) {
      if (file.filename() == parts.at(4)) return std::make_shared<FileStream>(FileStream::OfFile(file));
    }
    throw ApiError{.status = 404, .message = "the checkpoint has no such file any more"};
  }();
  reply->SendPieces({.type = parts.at(4) == kArchive ? "application/x-tar" : "application/octet-stream"},
                    stream->bytes(), [stream] { return stream->Next(); });
}

// Clients of older versions want a redirect.
HttpResponse TinkerRoutes::ArchiveLink(const Call& call) const {
  const CheckpointPath path = PathOf(call.values);
  checkpoints_.Find(call.owner, path);
  const std::string link = LinkOf(call, path, kArchive);
  return {.status = 302,
          .body = JsonLine({{"url", link}}),
          .headers = {{"Location", link}, {"Expires", HttpDate(checkpoints_.now() + kLinkSeconds)}}};
}

Json TinkerRoutes::FileLinks(const Call& call) const {
  const CheckpointPath path = PathOf(call.values);
  Json urls = Json::object();
  for (const std::filesystem::path& file : checkpoints_.FilesOf(call.owner, path)) {
    const std::string name = file.filename().string();
    urls[name] = LinkOf(call, path, name);
  }
  return {{"urls", urls}, {"expires", IsoTime(checkpoints_.now() + kLinkSeconds)}};
}

Json TinkerRoutes::Keep(const Call& call) {
  const Json body = JsonBody(call.request);
  Fields fields(body, "");
  const auto seconds = fields.Integer("ttl_seconds", 3600, int64_t{1} << 40);
  return service_.checkpoints.Keep(call.owner, PathOf(call.values), seconds);
}

}  // namespace trireme::tinker
