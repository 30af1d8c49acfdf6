#include "serve/routes.h"

#include <utility>

#include "core/base/error.h"
#include "core/base/log.h"
#include "net/secret.h"
#include "serve/fields.h"
#include "serve/openai_reply.h"

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

Routes::Routes(GenerationService& service, const ServedModel& model, const Callers& callers,
               std::string adapter_directory)
    : service_(service),
      model_(model),
      callers_(callers),
      adapter_directory_(std::move(adapter_directory)),
      reading_(WorkThread::Limits()) {
  AddAll();
}

// Both forms of a base URL work: with /v1 and without.
void Routes::Add(const std::string& method, const std::string& path, Respond respond) {
  for (const char* prefix : {"/v1", ""}) table_.Add(method, prefix + path, {.at_once = respond, .body = {}});
  offered_ += Concat(offered_.empty() ? "" : ", ", "/v1", path);
}

void Routes::AddBody(const std::string& path, RespondToBody respond) {
  for (const char* prefix : {"/v1", ""})
    table_.Add("POST", prefix + path, {.at_once = {}, .body = respond}, {.json = true});
  offered_ += Concat(offered_.empty() ? "" : ", ", "/v1", path);
}

void Routes::AddNotOffered(const std::string& path, const std::string& why) {
  const Respond refuse = [why](const Call& call) -> HttpResponse {
    throw ApiError{.status = 404,
                   .message = call.request.path().substr(0, 100) + " is not offered: " + why,
                   .code = "not_offered"};
  };
  for (const char* prefix : {"/v1", ""}) table_.Add("*", prefix + path, {.at_once = refuse, .body = {}});
}

void Routes::AddAll() {
  AddBody("/chat/completions", [this](const Call& call, const Json& body) -> std::optional<HttpResponse> {
    Generate(call, ReadChat(body, model_));
    return std::nullopt;
  });
  AddBody("/completions", [this](const Call& call, const Json& body) -> std::optional<HttpResponse> {
    Generate(call, ReadCompletion(body, model_));
    return std::nullopt;
  });
  AddBody("/tokenize", [this](const Call&, const Json& body) { return Tokenize(body); });
  Add("GET", "/models", [this](const Call&) { return Models(""); });
  Add("GET", "/models/{name...}", [this](const Call& call) { return Models(call.values.at("name")); });
  Add("GET", "/health", [](const Call&) { return HttpResponse{.type = "text/plain"}; });
  Add("GET", "/metrics", [this](const Call&) {
    return HttpResponse{.type = "text/plain; version=0.0.4; charset=utf-8",
                        .body = service_.metrics().Text(model_.name)};
  });
  Add("GET", "/version", [](const Call&) { return HttpResponse{.body = JsonLine({{"version", TRIREME_VERSION}})}; });
  for (const bool load : {true, false}) {
    AddBody(load ? "/load_lora_adapter" : "/unload_lora_adapter",
            [this, load](const Call& call, const Json& body) -> std::optional<HttpResponse> {
              ChangeAdapter(load, call, body);
              return std::nullopt;
            });
  }
  AddNotOffered("/responses", "use /v1/chat/completions");
  for (const char* path : {"/embeddings", "/rerank", "/score", "/pooling", "/classify", "/moderations"})
    AddNotOffered(path, "this server's model writes text; it gives no embeddings, scores or classes");
  for (const char* path : {"/images/{rest...}", "/audio/{rest...}", "/videos/{rest...}"})
    AddNotOffered(path, "this server's model writes text alone");
  for (const char* path : {"/files", "/files/{rest...}", "/batches", "/batches/{rest...}"})
    AddNotOffered(path, "this server keeps no files; send each request to /v1/chat/completions");
  AddNotOffered("/fine_tuning/{rest...}", "train with `trireme train`, or remotely with `trireme serve --train`");
}

// The one of this name; without a name all of them.
HttpResponse Routes::Models(const std::string& name) const {
  const auto entry = [&](const std::string& id, const std::string& root, const Json& parent, int64_t created) {
    return Json{{"id", id},
                {"object", "model"},
                {"created", created},
                {"owned_by", "trireme"},
                {"root", root},
                {"parent", parent},
                {"max_model_len", model_.context}};
  };
  Json all = Json::array({entry(model_.name, model_.name, nullptr, model_.created)});
  for (const NamedAdapter& adapter : model_.adapters->All()) {
    all.push_back(entry(adapter.name, adapter.folder, model_.name, adapter.created));
  }
  if (name.empty()) return {.body = JsonLine({{"object", "list"}, {"data", all}})};
  for (const Json& one : all) {
    if (one["id"] == name) return {.body = JsonLine(one)};
  }
  throw ModelNotFound(name, model_);
}

// The response comes when the service has done it, between two steps.
void Routes::ChangeAdapter(bool load, const Call& call, const Json& body) {
  if (adapter_directory_.empty()) {
    throw ApiError{.status = 404,
                   .message = "adapters are not loaded at run time; start the server with --adapter-directory DIR"};
  }
  Fields fields(body, "");
  const std::string name = fields.Text("lora_name").value_or("");
  if (!IsModelName(name)) fields.Fail("lora_name", "wanted 1 to 128 printable characters without blanks and '='");
  AdapterChange change{.name = name, .directory = {}, .done = {}};
  if (load) {
    change.directory = AllowedAdapterPath(adapter_directory_, fields.Text("lora_path").value_or(""));
    change.replace = fields.Switch("load_inplace").value_or(false);
  } else {
    fields.Accept({"lora_int_id"});
  }
  fields.Finish();
  change.done = [load, name, call](const ApiError* error) {
    HttpResponse response{.type = "text/plain; charset=utf-8",
                          .body = "Success: LoRA adapter '" + name + (load ? "' added." : "' removed.")};
    Send(call, error != nullptr ? ResponseOf(*error) : std::move(response));
  };
  service_.Change(std::move(change));
}

HttpResponse Routes::Tokenize(const Json& body) const {
  const std::vector<int64_t> tokens = ReadTokenize(body, model_);
  return {.body = JsonLine({{"tokens", tokens}, {"count", tokens.size()}, {"max_model_len", model_.context}})};
}

void Routes::Generate(const Call& call, CompletionRequest request) {
  Generation generation{.request = std::move(request)};
  generation.salt = call.tenant + " " + generation.request.cache_salt;
  generation.listener = MakeOpenAiReply(model_, generation.request, call.reply, call.headers);
  service_.Submit(std::move(generation));
}

void Routes::Send(const Call& call, HttpResponse response) {
  response.headers.insert(call.headers.begin(), call.headers.end());
  call.reply->Send(std::move(response));
}

void Routes::Handle(HttpRequest request, std::shared_ptr<HttpReply> reply) {
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

void Routes::Dispatch(std::shared_ptr<Call> call) {
  auto [handler, values] = table_.Find(call->request);
  call->values = std::move(values);
  if (handler.at_once) return Send(*call, handler.at_once(*call));
  const auto bytes = std::ssize(call->request.body);
  const bool taken = reading_.Add(bytes, [call, &respond = handler.body] {
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
