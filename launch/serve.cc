// `trireme serve`: a model behind OpenAI's HTTP interface, alone or over many ranks; rank 0 listens.
#include <chrono>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>

#include "board/board.h"
#include "core/base/error.h"
#include "core/base/log.h"
#include "core/base/stop_signals.h"
#include "core/base/text.h"
#include "core/cli/command.h"
#include "core/tensor/torch_errors.h"
#include "data/record_fields.h"
#include "generation/json_tokens.h"
#include "generation/text/prompts.h"
#include "launch/layout.h"
#include "launch/listening.h"
#include "launch/model_source.h"
#include "launch/serve_training.h"
#include "models/families.h"
#include "serve/callers.h"
#include "serve/routes.h"
#include "serve/service.h"
#include "session/row_adapter_graph.h"
#include "session/session.h"
#include "session/tuning.h"
#include "text/token_bytes.h"
#include "web/http/http.h"

namespace trireme {
namespace {

// What the server's thread calls: nothing before the weights are there, and nothing after the end. Polls of remote
// training are held meanwhile: their clients ask again at once, without end, where a server only says that it is not
// there.
class Gate {
 public:
  explicit Gate(bool trains) : trains_(trains) {}
  void Open(Routes* routes, ServeTraining* training) {
    const std::lock_guard lock(mutex_);
    routes_ = routes;
    training_ = training;
    if (training_ == nullptr) return;
    for (auto& [request, reply] : std::exchange(held_, {})) training_->Handle(std::move(request), std::move(reply));
  }
  // Before the server ends.
  void Release() {
    const std::lock_guard lock(mutex_);
    trains_ = false;
    held_.clear();
  }
  void Handle(HttpRequest request, std::shared_ptr<HttpReply> reply) {
    const std::lock_guard lock(mutex_);
    if (training_ != nullptr && ServeTraining::Takes(request))
      return training_->Handle(std::move(request), std::move(reply));
    if (trains_ && request.path().starts_with("/api/v1/retrieve_future") && request.body.size() < kMostHeldBytes) {
      held_.emplace_back(std::move(request), std::move(reply));
      return;
    }
    if (routes_ != nullptr) return routes_->Handle(std::move(request), std::move(reply));
    reply->Send(AnswerOf(
        {.status = 503, .message = "the server starts or stops", .code = "overloaded", .type = "server_error"}));
  }

 private:
  static constexpr size_t kMostHeldBytes = 64 * 1024;

  std::mutex mutex_;
  bool trains_;
  std::vector<std::pair<HttpRequest, std::shared_ptr<HttpReply>>> held_;
  Routes* routes_ = nullptr;
  ServeTraining* training_ = nullptr;  // nullptr: the server does not train
};

struct GateStop {
  Gate& gate;
  ~GateStop() { gate.Release(); }
};

std::string LastComponent(const std::string& directory) {
  const std::filesystem::path path = std::filesystem::path(directory).lexically_normal();
  return (path.has_filename() ? path : path.parent_path()).filename().string();
}

struct AdapterArgument {
  std::string name, directory;
};

// NAME=DIR, or DIR, whose last component is then the name.
std::vector<AdapterArgument> ServedAdapters(const Arguments& arguments) {
  std::vector<AdapterArgument> adapters;
  std::set<std::string> names;
  for (const std::string& value : arguments.values("adapters")) {
    const size_t equals = value.find('=');
    AdapterArgument adapter{.name = equals == std::string::npos ? LastComponent(value) : value.substr(0, equals),
                            .directory = equals == std::string::npos ? value : value.substr(equals + 1)};
    if (!IsModelName(adapter.name) || adapter.directory.empty()) {
      throw InputError("--adapters ", value, ": wanted NAME=DIR with a name of printable characters without blanks");
    }
    if (!names.insert(adapter.name).second) {
      throw InputError("--adapters ", value, ": the name '", adapter.name, "' is given twice");
    }
    adapters.push_back(std::move(adapter));
  }
  return adapters;
}

// Against the model's graph and configuration, before any weights are read.
void CheckAdapters(const std::vector<AdapterArgument>& adapters, const LayerGraph& graph, const std::string& model,
                   bool speaks) {
  for (const AdapterArgument& adapter : adapters) {
    const AdapterDirectory files(adapter.directory, ExpertNamesOf(graph));
    const std::string doubt = DoubtAboutBase(files, model);
    GraphWithRowAdapter(graph, files, model);
    if (speaks && !doubt.empty()) TRIREME_LOG(WARNING) << "--adapters " << adapter.name << ": " << doubt;
  }
}

// The model, and the adapters that requests may name in its place.
ModelSource ServedSource(const Arguments& arguments, const Config& config, const std::vector<AdapterArgument>& adapters,
                         Job& job) {
  const ModelSource source = FindBase(arguments, config, job, adapters.empty() ? "" : adapters.front().directory);
  if (!source.adapters.empty() && (!adapters.empty() || arguments.has("adapter-directory"))) {
    throw InputError(source.adapters,
                     ": is an adapter itself; give its base as --model and it as --adapters NAME=", source.adapters);
  }
  return source;
}

std::string AdapterDirectoryOf(const Arguments& arguments) {
  const std::string directory = arguments.value("adapter-directory");
  std::error_code ignored;
  if (!arguments.has("adapter-directory") || std::filesystem::is_directory(directory, ignored)) return directory;
  throw InputError("--adapter-directory ", directory, ": is not a directory");
}

ToolForm ToolFormFor(const Arguments& arguments, const std::optional<ChatTemplate>& chat) {
  const std::string name = arguments.value("tool-call-parser");
  if (name.empty()) return chat ? ToolFormOf(chat->source()) : nullptr;
  if (const ToolForm form = FindToolForm(name)) return form;
  throw InputError("--tool-call-parser ", name, ": unknown; known: ", Join(ToolFormNames()));
}

struct CachePlan {
  int64_t tokens = 0;   // in the cache of a data-parallel rank
  int64_t context = 0;  // of a request
};

// As many tokens as fit into the memory that is given to the cache.
CachePlan PlanCache(const Arguments& arguments, const Session& session, std::optional<int64_t> positions) {
  const double gib = arguments.number("kv-cache-gib", 1);
  const int64_t bytes = std::max<int64_t>(CacheBytesPerToken(session), 1);
  const int64_t rows = arguments.integer("max-rows", 16, 1), states = rows * StateBytesPerRow(session);
  const double left = gib * (int64_t{1} << 30) - static_cast<double>(states);
  if (left < static_cast<double>(bytes)) {
    throw InputError("--kv-cache-gib ", gib, ": the states of ", rows, " rows take ",
                     double(states) / (int64_t{1} << 30), " of them; allow more, or fewer rows with --max-rows");
  }
  const auto fits = static_cast<int64_t>(left / static_cast<double>(bytes));
  CachePlan plan{.tokens = arguments.integer("max-total-tokens", fits, 1), .context = 0};
  const int64_t longest = positions.value_or(plan.tokens);
  plan.context = arguments.integer("max-model-len", std::min(longest, plan.tokens), 2);
  if (plan.context > longest) {
    throw InputError("--max-model-len ", plan.context, ": the model supports ", longest, " (max_position_embeddings)");
  }
  if (plan.context > plan.tokens) {
    throw InputError("the KV cache holds ", plan.tokens, " tokens, a request may take ", plan.context, "; allow ",
                     (plan.context * bytes + states) / double(int64_t{1} << 30),
                     " with --kv-cache-gib, or less with --max-model-len");
  }
  return plan;
}

// The model's text side: read and checked before any weights.
struct TextSide {
  explicit TextSide(const Config& config, bool speaks) : tokenizer(config.model().path()) {
    try {
      chat.emplace(ChatTemplate::Of(tokenizer, config.data().template_(), TemplateValuesOf(config.data())));
    } catch (const Error& error) {
      if (!config.data().template_().empty()) throw;
      if (speaks) TRIREME_LOG(WARNING) << "no chats: " << error.what();
    }
    try {
      json = std::make_shared<const JsonTokens>(BytesOfTokens(config.model().path()));
    } catch (const std::exception& error) {
      why_no_json = error.what();
    }
  }

  const Tokenizer tokenizer;
  std::optional<ChatTemplate> chat;
  std::shared_ptr<const JsonTokens> json;  // nullptr: answers cannot be restricted to it
  std::string why_no_json;
};

ServedModel ModelOf(const Arguments& arguments, const std::string& directory, const TextSide& text,
                    int64_t vocabulary) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  ServedModel model{.tokenizer = text.tokenizer,
                    .chat = text.chat ? &*text.chat : nullptr,
                    .name = arguments.value("served-model-name", LastComponent(directory)),
                    .created = std::chrono::duration_cast<std::chrono::seconds>(now).count(),
                    .vocabulary = vocabulary,
                    .ends = EndTokens(directory, &text.tokenizer),
                    .most_rows = 8 * arguments.integer("max-rows", 16, 1)};
  model.turn_ends = model.ends;
  model.tool_form = ToolFormFor(arguments, text.chat);
  model.why_no_json = text.why_no_json;
  if (!text.chat) return model;
  if (const auto end = TurnEnd(text.tokenizer, *text.chat)) model.turn_ends.insert(*end);
  return model;
}

constexpr int64_t kMostImages = 8, kMostImagePixels = int64_t{4096} * 4096;

// Of a model that sees. Without its image processor's settings it is served, too, for text.
void UseImages(const Arguments& arguments, const Config& config, const LayerGraph& graph, bool speaks,
               ServedModel& model) {
  const int64_t most = arguments.integer("max-images", kMostImages),
                pixels = arguments.integer("max-image-pixels", kMostImagePixels, 1);
  if (!graph.images) {
    for (const char* name : {"max-images", "max-image-pixels"}) {
      if (arguments.has(name)) throw InputError("--", name, ": the model has no vision tower");
    }
    return;
  }
  model.image_token = graph.images->placeholder;
  model.most_images = most;
  if (!HasImageSettings(config.model().path())) {
    if (speaks)
      TRIREME_LOG(WARNING) << "no images: " << config.model().path()
                           << " has neither preprocessor_config.json nor processor_config.json";
    return;
  }
  model.images = std::make_shared<const ImageReader>(
      ImageReader::Options{config.model().path(), config.model().min_pixels(), config.model().max_pixels(), pixels});
}

// Listens at once, so that a port in use is noticed before the weights are read.
std::unique_ptr<HttpServer> Listen(const Arguments& arguments, const std::string& host, Board& board,
                                   const Callers& callers, Gate& gate) {
  return std::make_unique<HttpServer>(
      HttpAddress{.host = host,
                  .port = PortOf(arguments, 8000),
                  .tls_certificate = arguments.value("tls-certificate"),
                  .tls_key = arguments.value("tls-key")},
      HttpLimits{.body_bytes = BodyLimit(arguments),
                 .connections = arguments.integer("max-connections", 1024, 1),
                 .connections_per_address = arguments.integer("max-connections-per-address", 1024, 1)},
      [&board, &callers, trains = arguments.has("train")](const HttpRequest& request) {
        const auto check = [&board](const HttpRequest& with_key) { board.Check(with_key); };
        trains&& ServeTraining::Takes(request) ? ServeTraining::Check(request, callers, check) : check(request);
      },
      [&board, &gate](HttpRequest request, std::shared_ptr<HttpReply> reply) {
        if (!board.Handle(request, reply)) gate.Handle(std::move(request), std::move(reply));
      });
}

void WarnIfOpen(const Callers& callers, const std::string& host) {
  if (!callers.anyone() || IsLoopback(host)) return;
  TRIREME_LOG(WARNING) << "anyone who reaches " << host << " may use this server; set keys with --api-key-file";
}

EngineOptions EngineOptionsOf(const Arguments& arguments, const CachePlan& plan, const TextSide& text) {
  return {.max_rows = arguments.integer("max-rows", 16, 1),
          .max_batched_tokens = arguments.integer("max-batched-tokens", 2048, 1),
          .max_total_tokens = plan.tokens,
          .own_adapter = !arguments.has("train"),
          .repeat_context = arguments.has("train"),
          .json_tokens = text.json};
}

ServiceLimits LimitsOf(const Arguments& arguments) {
  return {.waiting = arguments.integer("max-waiting", 256, 0), .drain_seconds = arguments.number("drain-seconds", 30)};
}

void Serve(const Arguments& arguments, Job& job) {
  Config config = ConfigOf(arguments, job);
  const std::vector<AdapterArgument> adapters = ServedAdapters(arguments);
  UseModel(ServedSource(arguments, config, adapters, job), config);
  if (!arguments.has("train")) RefuseUngeneratable(config);
  PrepareTraining(arguments, config);
  PlannedModel planned = PlanModel(config, job.world());
  const bool speaks = job.rank() == 0;
  const std::string directory = config.model().path(), host = arguments.value("host", "127.0.0.1");
  CheckAdapters(adapters, planned.graph, directory, speaks);
  const std::string adapter_directory = AdapterDirectoryOf(arguments);
  const TextSide text(config, speaks);
  const Callers callers(ApiKeys::Read(arguments.value("api-key-file")), AllowedHosts(arguments, host),
                        ApiKeys::ReadFile(arguments.value("adapter-key-file"), "--adapter-key-file"));
  AdapterNames names;
  ServedModel model = ModelOf(arguments, directory, text, VocabularyOf(planned.graph));
  UseImages(arguments, config, planned.graph, speaks, model);
  model.adapters = &names;
  const StopSignals signals(/*speaks=*/false);  // its text is of runs that save
  Gate gate(arguments.has("train"));
  Board board({.outputs = speaks ? arguments.values("board") : std::vector<std::string>(),
               .has_chat = true,
               .has_remote = arguments.has("train")},
              callers);
  const std::unique_ptr<HttpServer> server =
      speaks ? Listen(arguments, host, board, callers, gate) : nullptr;  // outlives all replies
  const BoardStop stop_board{board};
  const GateStop stop_gate{gate};
  if (speaks) WarnIfOpen(callers, host);
  Session session(config, std::move(planned), job, {.trained = arguments.has("train")});
  session.TakeWeights();
  const CachePlan plan = PlanCache(arguments, session, MostPositions(directory));
  model.context = plan.context;
  Service service(session, EngineOptionsOf(arguments, plan, text), LimitsOf(arguments), model, names, job);
  for (const AdapterArgument& adapter : adapters) {
    if (adapter.name == model.name) throw InputError("--adapters ", adapter.name, ": is the model's own name");
    service.AddAdapter(adapter.name, adapter.directory);
  }
  Routes routes(service, model, callers, adapter_directory);
  ServeTraining training(arguments, {session, service, model, callers, directory});
  gate.Open(&routes, training.there() ? &training : nullptr);
  if (speaks) {
    TRIREME_LOG(INFO) << "serves " << model.name << " at " << (arguments.has("tls-key") ? "https" : "http") << "://"
                      << host << ":" << server->port() << "/v1, " << plan.context << " tokens of context, "
                      << plan.tokens << " in the KV cache";
  }
  service.Run();
  training.Close();
  gate.Open(nullptr, nullptr);
}

constexpr const char* kServeSummary =
    "Serves a model over HTTP as OpenAI's API does: /v1/chat/completions, /v1/completions, /v1/models. Also\n"
    "/health, /metrics and /tokenize; at / a page to chat with it. Alone or under mpirun; rank 0 listens. SIGTERM lets "
    "running answers "
    "end.";

std::vector<Option> ServeOptions() {
  std::vector<Option> options = {
      {.name = "model",
       .value_name = "DIR",
       .help = "a Hugging Face model directory, or a checkpoint-N; by default the base that --adapters "
               "names, or the "
               "result of the run of RUN.yaml"},
      {.name = "adapters",
       .value_name = "NAME=DIR",
       .help = "a PEFT LoRA adapter, or a checkpoint-N of one, for requests whose model is NAME (by default the "
               "folder's name); others use the model itself",
       .repeatable = true},
      {.name = "adapter-directory",
       .value_name = "DIR",
       .help = "adapters below DIR may be loaded and dropped at run time, by POST /v1/load_lora_adapter and "
               "/v1/unload_lora_adapter; by default none"},
      {.name = "adapter-key-file",
       .value_name = "FILE",
       .help = "keys for those two paths, instead of the keys of the others"},
      {.name = "tool-call-parser",
       .value_name = "NAME",
       .help = "the form in which the model writes tool calls: " + Join(ToolFormNames()) +
               "; by default what its chat template shows"},
      {.name = "served-model-name",
       .value_name = "NAME",
       .help = "the model's name in requests; by default its folder's"},
      {.name = "host", .value_name = "IP", .help = "address to listen on; by default 127.0.0.1: this machine only"},
      {.name = "port", .value_name = "N", .help = "by default 8000; 0: any free one"},
      {.name = "tls-certificate",
       .value_name = "FILE",
       .help = "PEM file of the server's certificate and its chain: HTTPS, with --tls-key; by default plain HTTP"},
      {.name = "tls-key", .value_name = "FILE", .help = "PEM file of the certificate's private key"},
      {.name = "api-key-file",
       .value_name = "FILE",
       .help = "keys that clients must present, one per line; the environment's TRIREME_API_KEY is one, too; "
               "by default none"},
      {.name = "allowed-host",
       .value_name = "NAME",
       .help = "a name by which clients may call this server; by default those of loopback on loopback, "
               "elsewhere any",
       .repeatable = true},
      {.name = "board",
       .value_name = "OUTPUT",
       .help = "a run's output directory, or one that holds such directories, to show on the page at / beside the chat",
       .repeatable = true},
      {.name = "max-rows",
       .value_name = "N",
       .help = "answers generated at once on each data-parallel rank; by default 16"},
      {.name = "max-batched-tokens", .value_name = "N", .help = "most tokens computed in one step; by default 2048"},
      {.name = "kv-cache-gib", .value_name = "GIB", .help = "memory for keys and values on each rank; by default 1"},
      {.name = "max-total-tokens",
       .value_name = "N",
       .help = "the same as a number of tokens; overrides --kv-cache-gib"},
      {.name = "max-model-len",
       .value_name = "N",
       .help = "most tokens of a prompt and its answer; by default what the model and the cache allow"},
      {.name = "max-waiting",
       .value_name = "N",
       .help = "requests that may wait; more are refused with 429; by default 256"},
      {.name = "max-images",
       .value_name = "N",
       .help = "images of one request to a model that sees; by default " + std::to_string(kMostImages) + "; 0: none"},
      {.name = "max-image-pixels",
       .value_name = "N",
       .help = "pixels of one image as it is sent; by default " + std::to_string(kMostImagePixels)},
      {.name = "max-connections", .value_name = "N", .help = "by default 1024; more are refused with 503"},
      {.name = "max-connections-per-address", .value_name = "N", .help = "of one client address; by default 1024"},
      {.name = "drain-seconds",
       .value_name = "S",
       .help = "after SIGTERM, time for running answers to end; by default 30"}};
  for (Option& option : TrainingOptions()) options.push_back(std::move(option));
  return options;
}

}  // namespace

Command ServeCommand() {
  return {.name = "serve",
          .summary = kServeSummary,
          .options = ServeOptions(),
          .positionals = {{.name = kRunFile,
                           .help = "the run whose layout and, without --model, whose result is used",
                           .required = false}},
          .takes_config = true,
          .run = [](const Arguments& arguments, Job& job) { WithTorchErrors([&] { Serve(arguments, job); }); }};
}

}  // namespace trireme
