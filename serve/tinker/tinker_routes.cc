#include "serve/tinker/tinker_routes.h"

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <functional>
#include <map>
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

HttpAnswer DetailOf(const ApiError& error) {
  HttpAnswer answer = AnswerOf(error);
  answer.body = JsonLine({{"detail", error.message}});
  return answer;
}

Json JsonBody(const HttpRequest& request) {
  if (request.body.empty()) return Json::object();
  Json body = TryParseJson(request.body);
  if (!body.is_object()) throw ApiError{.status = 422, .message = "the body is not a JSON object"};
  return body;
}

// "limit=20&offset=0": a number of the query.
int64_t QueryNumber(const HttpRequest& request, const std::string& name, int64_t otherwise) {
  const size_t mark = request.target.find('?');
  std::string rest = mark == std::string::npos ? "" : "&" + request.target.substr(mark + 1);
  const size_t found = rest.find("&" + name + "=");
  if (found == std::string::npos) return otherwise;
  const long long value = std::strtoll(rest.c_str() + found + name.size() + 2, nullptr, 10);
  return std::clamp<int64_t>(value, 0, 10'000);
}

[[noreturn]] void Unknown(const std::string& path) {
  throw ApiError{.status = 404, .message = "there is nothing at " + std::string(kTinkerPrefix) + path.substr(0, 120)};
}

[[noreturn]] void NotOffered(const std::string& what) {
  throw ApiError{.status = 400, .message = what + " is not offered by this server"};
}

// Of clients of the maker's service; here they get a clear answer.
void RefuseOthers(const std::string& path) {
  static const std::vector<std::pair<std::string, std::string>> others = {
      {"audit", "an audit log"},
      {"billing/", "billing"},
      {"copy_weights", "copying checkpoints"},
      {"create_custom_loss", "a loss that runs in the server"},
      {"auth/token", "an exchange of keys for tokens"},
      {"join_sampling_session", "joining a sampling session"},
      {"sessions/search", "a search of sessions"}};
  for (const auto& [prefix, what] : others) {
    if (path.starts_with(prefix)) NotOffered(what);
  }
  if (!path.starts_with("sessions/")) return;
  if (path.ends_with("/project")) NotOffered("a session's project");
  if (path.ends_with("/trace_export")) NotOffered("a session's trace");
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

// "training_runs/RUN/checkpoints/weights/0001": the parts after the prefix. What may follow a checkpoint's name is its
// act.
struct RunPath {
  std::string run, checkpoint, act;
  bool lists = false;  // the run's checkpoints

  CheckpointPath checkpoint_path() const { return ParsePath("tinker://" + run + "/" + checkpoint); }
};
RunPath RunPathOf(const std::string& path) {
  const std::string rest = path.substr(std::string("training_runs/").size()), middle = "/checkpoints";
  const size_t at = rest.find(middle);
  if (at == std::string::npos) return {.run = rest};
  const std::string after = rest.substr(at + middle.size());
  if (!after.empty() && after.front() != '/') Unknown(path);
  RunPath parts{.run = rest.substr(0, at), .checkpoint = after.empty() ? "" : after.substr(1), .lists = after.empty()};
  for (const std::string act : {"archive", "publish", "ttl", "external_weights_urls"}) {
    if (std::ranges::count(parts.checkpoint, '/') < 2 || !parts.checkpoint.ends_with("/" + act)) continue;
    parts.checkpoint.resize(parts.checkpoint.size() - act.size() - 1);
    parts.act = act;
    break;
  }
  return parts;
}

}  // namespace

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
  HttpAnswer answer;
  bool later = false;
  try {
    if (NeedsNoKey(request)) {
      callers_.CheckHost(request);
      return SendFile(request, reply);
    }
    const std::string owner = OwnerOf(request);
    answer = Dispatch(request, owner, reply, later);
  } catch (const ApiError& error) {
    answer = DetailOf(error);
    later = false;
  } catch (const std::exception& error) {  // a disk that is full, say: the server goes on
    TRIREME_LOG(ERROR) << "remote training: " << request.path() << ": " << error.what();
    answer = DetailOf({.status = 400, .message = "the server could not do it; its log says why"});
    later = false;
  }
  if (!later) reply->Send(std::move(answer));
}

std::string TinkerRoutes::LinkOf(const HttpRequest& request, const std::string& owner, const CheckpointPath& path,
                                 const std::string& file) const {
  const std::string place =
      Concat(kTinkerPrefix, kFiles, owner, "/", path.run, "/", path.kind, "/", path.name, "/", file);
  return Concat(request.secure ? "https" : "http", "://", request.header("host"),
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
HttpAnswer TinkerRoutes::ArchiveLink(const HttpRequest& request, const std::string& owner,
                                     const CheckpointPath& path) const {
  checkpoints_.Find(owner, path);
  const std::string link = LinkOf(request, owner, path, kArchive);
  return {.status = 302,
          .body = JsonLine({{"url", link}}),
          .headers = {{"Location", link}, {"Expires", HttpDate(checkpoints_.now() + kLinkSeconds)}}};
}

Json TinkerRoutes::FileLinks(const HttpRequest& request, const std::string& owner, const CheckpointPath& path) const {
  Json urls = Json::object();
  for (const std::filesystem::path& file : checkpoints_.FilesOf(owner, path)) {
    const std::string name = file.filename().string();
    urls[name] = LinkOf(request, owner, path, name);
  }
  return {{"urls", urls}, {"expires", IsoTime(checkpoints_.now() + kLinkSeconds)}};
}

// What may be done with one checkpoint.
HttpAnswer TinkerRoutes::Checkpoint(const HttpRequest& request, const std::string& path, const std::string& owner) {
  const RunPath run = RunPathOf(path);
  if (run.act == "publish") NotOffered("publishing checkpoints");
  if (run.act.empty() && request.method == "DELETE")
    return {.body = JsonLine(room_.RemoveCheckpoint(owner, run.run, run.checkpoint))};
  if (run.act == "archive" && request.method == "GET") return ArchiveLink(request, owner, run.checkpoint_path());
  if (run.act == "external_weights_urls" && request.method == "GET")
    return {.body = JsonLine(FileLinks(request, owner, run.checkpoint_path()))};
  if (run.act == "ttl" && request.method == "PUT") {
    const Json body = JsonBody(request);
    Fields fields(body, "");
    const auto seconds = fields.Integer("ttl_seconds", 3600, int64_t{1} << 40);
    return {.body = JsonLine(room_.KeepCheckpoint(owner, run.run, run.checkpoint, seconds))};
  }
  Unknown(path);
}

HttpAnswer TinkerRoutes::Dispatch(const HttpRequest& request, const std::string& owner,
                                  const std::shared_ptr<HttpReply>& reply, bool& later) {
  const std::string path = request.path().substr(std::string(kTinkerPrefix).size());
  RefuseOthers(path);
  if (path.starts_with("training_runs/") && !RunPathOf(path).checkpoint.empty())
    return Checkpoint(request, path, owner);
  if (request.method == "GET" || request.method == "HEAD") return {.body = JsonLine(Get(request, path, owner))};
  if (request.method != "POST")
    throw ApiError{.status = 405, .message = path.substr(0, 120) + " takes POST", .allow = "POST"};
  if (path == "retrieve_future") {
    later = true;
    const bool proto = request.header("accept").find(kProto) != std::string::npos;
    room_.Retrieve(owner, JsonBody(request), proto, reply);
    return {};
  }
  if (path == "retrieve_futures") {
    later = true;
    room_.RetrieveMany(owner, JsonBody(request), reply);
    return {};
  }
  return {.body = JsonLine(Post(request, path, owner))};
}

Json TinkerRoutes::Post(const HttpRequest& request, const std::string& path, const std::string& owner) {
  using Call = Json (Room::*)(const std::string&, const Json&);
  static const std::map<std::string, Call> calls = {{"create_session", &Room::CreateSession},
                                                    {"session_heartbeat", &Room::Heartbeat},
                                                    {"create_model", &Room::CreateModel},
                                                    {"unload_model", &Room::UnloadModel},
                                                    {"get_info", &Room::GetInfo},
                                                    {"optim_step", &Room::Step},
                                                    {"save_weights", &Room::Save},
                                                    {"load_weights", &Room::Load},
                                                    {"save_weights_for_sampler", &Room::SaveForSampler},
                                                    {"save_weights_external", &Room::SaveExternal},
                                                    {"create_sampling_session", &Room::CreateSampler},
                                                    {"asample", &Room::Sample},
                                                    {"cancel_future", &Room::Cancel}};
  if (path == "telemetry") return {{"status", "accepted"}};
  // One poll for all samples of a sampler; fewer connections, of which a server has so many.
  if (path == "client/config") return {{"sample_use_retrieve_futures", true}, {"sample_max_concurrent_requests", 256}};
  if (path == "client/dynamic_config") return {{"sample_cancel_enabled", true}};
  if (path.starts_with("sessions/") && path.ends_with("/finish")) {
    return room_.FinishSession(owner, path.substr(9, path.size() - 9 - 7));
  }
  const bool proto = LowerCase(request.header("content-type")).starts_with(kProto);
  if (path == "forward_backward" && proto) return room_.PassProto(owner, request.body);
  const Json body = JsonBody(request);
  if (path == "forward") return room_.Pass(owner, body, "forward_input");
  if (path == "forward_backward") return room_.Pass(owner, body, "forward_backward_input");
  if (path == "weights_info") return room_.WeightsInfo(owner, body);
  const auto call = calls.find(path);
  if (call == calls.end()) Unknown(path);
  return (room_.*call->second)(owner, body);
}

Json TinkerRoutes::Get(const HttpRequest& request, const std::string& path, const std::string& owner) const {
  const int64_t offset = QueryNumber(request, "offset", 0);
  if (path == "healthz") return {{"status", "ok"}};
  if (path == "get_server_capabilities") return room_.Capabilities();
  if (path == "status") return room_.Status(callers_.anyone() ? std::nullopt : std::optional(owner));
  if (path == "training_runs") return room_.TrainingRuns(owner, QueryNumber(request, "limit", 20), offset);
  if (path == "checkpoints") return room_.CheckpointList(owner, "", QueryNumber(request, "limit", 100), offset);
  if (path == "sessions") return room_.Sessions(owner, QueryNumber(request, "limit", 20), offset);
  if (path.starts_with("sessions/")) return room_.SessionInfo(owner, path.substr(9));
  if (path.starts_with("samplers/")) return room_.SamplerInfo(owner, path.substr(9));
  if (!path.starts_with("training_runs/")) Unknown(path);
  const RunPath run = RunPathOf(path);
  if (run.lists) return room_.CheckpointList(owner, run.run, QueryNumber(request, "limit", 1000), offset);
  return room_.TrainingRun(owner, run.run);
}

}  // namespace trireme::tinker
