#include "serve/routes.h"

#include <utility>

#include "core/base/error.h"
#include "serve/fields.h"
#include "serve/openai_reply.h"

namespace trireme {

Routes::Routes(GenerationService& service, const ServedModel& model, const Callers& callers,
               std::string adapter_directory)
    : ApiRoutes(callers), service_(service), model_(model), adapter_directory_(std::move(adapter_directory)) {
  AddAll();
}

Routes::~Routes() { StopReading(); }

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
  AddServerPaths(service_.metrics(), model_.name);
  for (const bool load : {true, false}) {
    AddBody(load ? "/load_lora_adapter" : "/unload_lora_adapter",
            [this, load](const Call& call, const Json& body) -> std::optional<HttpResponse> {
              ChangeAdapter(load, call, body);
              return std::nullopt;
            });
  }
  AddNotOffered("/responses", "use /v1/chat/completions");
  for (const char* path : {"/embeddings", "/rerank", "/score", "/pooling", "/classify", "/moderations"})
    AddNotOffered(path,
                  "this server's model writes text; it gives no embeddings, scores or classes: use "
                  "/v1/chat/completions or /v1/completions, or serve a model of vectors, scores or labels");
  AddNeverOffered();
}

// The one of this name; without a name all of them.
HttpResponse Routes::Models(const std::string& name) const {
  Json all = Json::array({ModelEntry(model_.name, model_.name, nullptr, model_.created, model_.context)});
  for (const NamedAdapter& adapter : model_.adapters->All()) {
    all.push_back(ModelEntry(adapter.name, adapter.folder, model_.name, adapter.created, model_.context));
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

}  // namespace trireme
