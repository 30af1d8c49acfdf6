#include "serve/tinker/tinker_routes.h"

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <map>

#include "core/base/error.h"
#include "core/base/log.h"

namespace trireme::tinker {
namespace {

constexpr char kProto[] = "application/x-protobuf";

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

// "training_runs/RUN/checkpoints/weights/0001": the parts after the prefix.
struct RunPath {
  std::string run, checkpoint;
  bool lists = false;  // the run's checkpoints
};
RunPath RunPathOf(const std::string& path) {
  const std::string rest = path.substr(std::string("training_runs/").size()), middle = "/checkpoints";
  const size_t at = rest.find(middle);
  if (at == std::string::npos) return {.run = rest};
  const std::string after = rest.substr(at + middle.size());
  if (!after.empty() && after.front() != '/') Unknown(path);
  return {.run = rest.substr(0, at), .checkpoint = after.empty() ? "" : after.substr(1), .lists = after.empty()};
}

}  // namespace

// The key may stand in any of three headers. Without keys of its own the server takes every caller, and each key owns what
// was made with it.
std::string TinkerRoutes::OwnerOf(HttpRequest& request) const {
  const std::string bearer = "Bearer ";
  std::string key = request.header("x-api-key");
  for (const char* name : {"authorization", "twinkle-authorization"}) {
    const std::string value = request.header(name);
    if (key.empty() && value.starts_with(bearer)) key = value.substr(bearer.size());
  }
  request.headers["authorization"] = bearer + key;
  callers_.Admit(request);
  return checkpoints_.OwnerOf(key);
}

void TinkerRoutes::Handle(HttpRequest request, std::shared_ptr<HttpReply> reply) {
  HttpAnswer answer;
  bool later = false;
  try {
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

HttpAnswer TinkerRoutes::Dispatch(const HttpRequest& request, const std::string& owner,
                                  const std::shared_ptr<HttpReply>& reply, bool& later) {
  const std::string path = request.path().substr(std::string(kTinkerPrefix).size());
  if (request.method == "GET" || request.method == "HEAD") return {.body = JsonLine(Get(request, path, owner))};
  if (request.method == "DELETE" && path.starts_with("training_runs/")) {
    const RunPath run = RunPathOf(path);
    return {.body = JsonLine(room_.RemoveCheckpoint(owner, run.run, run.checkpoint))};
  }
  if (request.method != "POST") throw ApiError{.status = 405, .message = path.substr(0, 120) + " takes POST", .allow = "POST"};
  if (path == "retrieve_future") {
    later = true;
    const bool proto = request.header("accept").find(kProto) != std::string::npos;
    room_.Retrieve(owner, JsonBody(request), proto, reply);
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
                                                    {"create_sampling_session", &Room::CreateSampler},
                                                    {"asample", &Room::Sample},
                                                    {"cancel_future", &Room::Cancel}};
  if (path == "telemetry") return {{"status", "accepted"}};
  if (path == "client/config" || path == "client/dynamic_config") return Json::object();
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
  if (path == "training_runs") return room_.TrainingRuns(owner, QueryNumber(request, "limit", 20), offset);
  if (path == "checkpoints") return room_.CheckpointList(owner, "", QueryNumber(request, "limit", 100), offset);
  if (path == "sessions") return room_.Sessions(owner);
  if (path.starts_with("sessions/")) return room_.SessionInfo(owner, path.substr(9));
  if (path.starts_with("samplers/")) return room_.SamplerInfo(owner, path.substr(9));
  if (!path.starts_with("training_runs/")) Unknown(path);
  const RunPath run = RunPathOf(path);
  if (run.lists) return room_.CheckpointList(owner, run.run, QueryNumber(request, "limit", 1000), offset);
  if (!run.checkpoint.empty()) Unknown(path);  // archives are not built
  return room_.TrainingRun(owner, run.run);
}

}  // namespace trireme::tinker
