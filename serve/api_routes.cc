#include "serve/api_routes.h"

#include <utility>

#include "core/base/error.h"
#include "core/base/log.h"
#include "net/secret.h"

namespace trireme {
namespace {

Json BodyOf(const HttpRequest& request) {
  Json body = TryParseJson(request.body);
  if (body.is_discarded())
    throw ApiError{.message =
                       "the body is not JSON, is nested too deeply, or has a number or an object that is too large"};
  return body;
}

}  // namespace

void ApiRoutes::Add(const std::string& method, const std::string& path, Respond respond) {
  for (const char* prefix : {"/v1", ""}) table_.Add(method, prefix + path, {.at_once = respond, .body = {}});
  offered_ += Concat(offered_.empty() ? "" : ", ", "/v1", path);
}

void ApiRoutes::AddBody(const std::string& path, RespondToBody respond) {
  for (const char* prefix : {"/v1", ""})
    table_.Add("POST", prefix + path, {.at_once = {}, .body = respond}, {.json = true});
  offered_ += Concat(offered_.empty() ? "" : ", ", "/v1", path);
}

void ApiRoutes::AddNotOffered(const std::string& path, const std::string& why) {
  const Respond refuse = [why](const Call& call) -> HttpResponse {
    throw ApiError{.status = 404,
                   .message = call.request.path().substr(0, 100) + " is not offered: " + why,
                   .code = "not_offered"};
  };
  for (const char* prefix : {"/v1", ""}) table_.Add("*", prefix + path, {.at_once = refuse, .body = {}});
}

void ApiRoutes::AddServerPaths(const Metrics& metrics, const std::string& model) {
  Add("GET", "/health", [](const Call&) { return HttpResponse{.type = "text/plain"}; });
  Add("GET", "/metrics", [&metrics, model](const Call&) {
    return HttpResponse{.type = "text/plain; version=0.0.4; charset=utf-8", .body = metrics.Text(model)};
  });
  Add("GET", "/version", [](const Call&) { return HttpResponse{.body = JsonLine({{"version", TRIREME_VERSION}})}; });
}

void ApiRoutes::AddNeverOffered() {
  for (const char* path : {"/images/{rest...}", "/audio/{rest...}", "/videos/{rest...}"})
    AddNotOffered(path, "this server makes no images, sound or videos");
  for (const char* path : {"/files", "/files/{rest...}", "/batches", "/batches/{rest...}"})
    AddNotOffered(path, "this server keeps no files; send each request to its own path");
  AddNotOffered("/fine_tuning/{rest...}", "train with `trireme train`, or remotely with `trireme serve --train`");
}

Json ApiRoutes::ModelEntry(const std::string& id, const std::string& root, const Json& parent, int64_t created,
                           int64_t context) {
  return {{"id", id},     {"object", "model"}, {"created", created},      {"owned_by", "trireme"},
          {"root", root}, {"parent", parent},  {"max_model_len", context}};
}

void ApiRoutes::Send(const Call& call, HttpResponse response) {
  response.headers.insert(call.headers.begin(), call.headers.end());
  call.reply->Send(std::move(response));
}

void ApiRoutes::Handle(HttpRequest request, std::shared_ptr<HttpReply> reply) {
  auto call = std::make_shared<Call>();
  call->request = std::move(request);
  call->reply = std::move(reply);
  call->headers = {{"X-Request-Id", net::Hex(net::RandomBytes(12))}};
  try {
    call->tenant = callers_.Admit(call->request);
    Dispatch(call);
  } catch (ApiError error) {
    if (error.status == 404 && error.code.empty()) error.message += "; there are " + offered_;
    Send(*call, ResponseOf(error));
  }
}

void ApiRoutes::Dispatch(std::shared_ptr<Call> call) {
  auto [handler, values] = table_.Find(call->request);
  call->values = std::move(values);
  if (handler.at_once) return Send(*call, handler.at_once(*call));
  const auto bytes = std::ssize(call->request.body);
  const bool taken = reading_->Add(bytes, [call, &respond = handler.body] {
    if (call->reply->gone()) return;
    try {
      const Json body = BodyOf(call->request);
      call->request.body = {};
      if (std::optional<HttpResponse> made = respond(*call, body)) Send(*call, *std::move(made));
    } catch (const ApiError& error) {
      Send(*call, ResponseOf(error));
    } catch (const std::exception& error) {
      TRIREME_LOG(ERROR) << "a request failed: " << error.what();
      Send(*call, ResponseOf({.status = 500, .message = "the server failed", .type = "server_error"}));
    }
  });
  if (taken) return;
  throw ApiError{.status = 429,
                 .message = "too many requests are waiting; try again later",
                 .code = "rate_limit_exceeded",
                 .type = "rate_limit_error"};
}

}  // namespace trireme
