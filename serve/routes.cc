#include "serve/routes.h"

#include <algorithm>

#include "core/base/error.h"
#include "net/secret.h"
#include "serve/fields.h"
#include "serve/openai_reply.h"

namespace trireme {
namespace {

int HexDigit(char digit) {
  if (digit >= '0' && digit <= '9') return digit - '0';
  if (digit >= 'a' && digit <= 'f') return digit - 'a' + 10;
  return digit >= 'A' && digit <= 'F' ? digit - 'A' + 10 : -1;
}

std::string PercentDecoded(const std::string& text) {
  std::string decoded;
  for (size_t i = 0; i < text.size(); ++i) {
    const int high = text[i] == '%' && i + 2 < text.size() ? HexDigit(text[i + 1]) : -1;
    const int low = high >= 0 ? HexDigit(text[i + 2]) : -1;
    if (low < 0) {
      decoded += text[i];
      continue;
    }
    decoded += static_cast<char>(high * 16 + low);
    i += 2;
  }
  return decoded;
}

// The path without its query and without /v1: both forms of a base URL work.
std::string PathOf(const HttpRequest& request) {
  const std::string path = request.path();
  return path.starts_with("/v1/") ? path.substr(3) : path;
}

Json BodyOf(const HttpRequest& request) {
  const std::string type = LowerCase(request.header("content-type"));
  if (!type.starts_with("application/json")) {
    throw ApiError{.status = 415, .message = "wanted a body of Content-Type application/json"};
  }
  Json body = TryParseJson(request.body);
  if (body.is_discarded())
    throw ApiError{.message =
                       "the body is not JSON, is nested too deeply, or has a number or an object that is too large"};
  return body;
}

}  // namespace

Routes::Routes(Service& service, const ServedModel& model, const Callers& callers, std::string adapter_directory)
    : service_(service), model_(model), callers_(callers), adapter_directory_(std::move(adapter_directory)) {}

// The list, or the one that the path names.
HttpAnswer Routes::Models(const std::string& path) const {
  const auto entry = [&](const std::string& name, const std::string& root, const Json& parent, int64_t created) {
    return Json{{"id", name},
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
  if (path == "/models") return {.body = JsonLine({{"object", "list"}, {"data", all}})};
  const std::string name = PercentDecoded(path.substr(8));
  for (const Json& one : all) {
    if (one["id"] == name) return {.body = JsonLine(one)};
  }
  throw ModelNotFound(name, model_);
}

// The answer comes when the service has done it, between two steps.
void Routes::ChangeAdapter(bool load, const Json& body, std::shared_ptr<HttpReply> reply,
                           std::map<std::string, std::string> headers) {
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
  change.done = [load, name, reply = std::move(reply), headers = std::move(headers)](const ApiError* error) {
    HttpAnswer answer{.type = "text/plain; charset=utf-8",
                      .body = "Success: LoRA adapter '" + name + (load ? "' added." : "' removed.")};
    if (error != nullptr) answer = AnswerOf(*error);
    answer.headers.insert(headers.begin(), headers.end());
    reply->Send(std::move(answer));
  };
  service_.Change(std::move(change));
}

void Routes::Handle(HttpRequest request, std::shared_ptr<HttpReply> reply) {
  const std::map<std::string, std::string> headers = {{"X-Request-Id", net::Hex(net::RandomBytes(12))}};
  HttpAnswer answer;
  bool later = false;
  try {
    answer = Dispatch(request, callers_.Admit(request), reply, headers, later);
  } catch (const ApiError& error) {
    answer = AnswerOf(error);
    later = false;
  }
  if (later) return;
  answer.headers.insert(headers.begin(), headers.end());
  reply->Send(std::move(answer));
}

HttpAnswer Routes::Dispatch(const HttpRequest& request, const std::string& tenant,
                            const std::shared_ptr<HttpReply>& reply, const std::map<std::string, std::string>& headers,
                            bool& later) {
  const std::string path = PathOf(request);
  const auto wants = [&](const char* method) {
    if (request.method == method || (request.method == "HEAD" && std::string(method) == "GET")) return;
    throw ApiError{.status = 405, .message = path + " takes " + method, .allow = method};
  };
  if (path == "/health") return wants("GET"), HttpAnswer{.type = "text/plain"};
  if (path == "/metrics") {
    wants("GET");
    return {.type = "text/plain; version=0.0.4; charset=utf-8", .body = service_.metrics().Text(model_.name)};
  }
  if (path == "/version") return wants("GET"), HttpAnswer{.body = JsonLine({{"version", TRIREME_VERSION}})};
  if (path == "/models" || path.starts_with("/models/")) return wants("GET"), Models(path);
  if (path == "/load_lora_adapter" || path == "/unload_lora_adapter") {
    wants("POST");
    ChangeAdapter(path == "/load_lora_adapter", BodyOf(request), reply, headers);
    later = true;
    return {};
  }
  if (path == "/tokenize") {
    wants("POST");
    const std::vector<int64_t> tokens = ReadTokenize(BodyOf(request), model_);
    return {.body = JsonLine({{"tokens", tokens}, {"count", tokens.size()}, {"max_model_len", model_.context}})};
  }
  if (path == "/chat/completions" || path == "/completions") {
    wants("POST");
    const Json body = BodyOf(request);
    Generation generation{.request = path == "/completions" ? ReadCompletion(body, model_) : ReadChat(body, model_)};
    generation.salt = tenant + " " + generation.request.cache_salt;
    generation.listener = MakeOpenAiReply(model_, generation.request, reply, headers);
    later = true;
    service_.Submit(std::move(generation));
    return {};
  }
  throw ApiError{.status = 404,
                 .message = "no path " + path.substr(0, 100) + "; the API is below /v1, as /v1/chat/completions"};
}

}  // namespace trireme
