// `trireme serve`: a model behind OpenAI's HTTP interface, alone or over many ranks; rank 0 listens.
#include <filesystem>
#include <memory>
#include <optional>

#include "board/board.h"
#include "core/base/error.h"
#include "core/base/log.h"
#include "core/base/stop_signals.h"
#include "core/base/text.h"
#include "core/cli/command.h"
#include "core/tensor/torch_errors.h"
#include "generation/text/prompts.h"
#include "launch/layout.h"
#include "launch/listening.h"
#include "launch/model_source.h"
#include "launch/serve_defaults.h"
#include "launch/serve_gate.h"
#include "launch/serve_listen.h"
#include "launch/serve_texts.h"
#include "launch/serve_training.h"
#include "launch/served_model.h"
#include "launch/text_directory.h"
#include "models/families.h"
#include "serve/callers.h"
#include "serve/routes.h"
#include "serve/service.h"
#include "session/row_adapter_graph.h"
#include "session/session.h"
#include "session/tuning.h"
#include "web/http/http.h"

namespace trireme {
namespace {

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

// Where there are no keys: who may use the server then, and what must not be open to them. On this machine whoever has
// an account may: neither training nor adapters run a program or leave the directory that they were given.
void CheckOpenDoors(const Arguments& arguments, const Callers& callers, const std::string& host, bool speaks) {
  if (!callers.anyone()) return;
  if (arguments.has("train")) RefuseWithoutKeys("--train", "train here and fill its disk", host);
  if (arguments.has("adapter-directory") && !arguments.has("adapter-key-file"))
    RefuseWithoutKeys("--adapter-directory", "load and drop adapters here", host);
  if (speaks) WarnOfOpenDoors(arguments, host);
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
  ModelSource source = ServedSource(arguments, config, adapters, job);
  const std::string named = source.model;
  config = ConfigOfTexts(arguments, config, source, job);
  if (GivesTexts(config)) return ServeTexts(arguments, config, source, named, job);
  UseModel(source, config);
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
  CheckOpenDoors(arguments, callers, host, speaks);
  AdapterNames names;
  ServedModel model = ModelOf(arguments, directory, text, VocabularyOf(planned.graph));
  UseImages(arguments, config, planned.graph, speaks, model);
  model.adapters = &names;
  model.defaults = DefaultsOf(arguments, directory);
  const StopSignals signals(/*speaks=*/false);  // its text is of runs that save
  Gate gate(arguments.has("train"));
  Board board({.outputs = speaks ? arguments.values("board") : std::vector<std::string>(),
               .has_chat = true,
               .has_images = model.images != nullptr,
               .has_remote = arguments.has("train")},
              callers);
  const std::unique_ptr<HttpServer> server =
      speaks ? Listen(arguments, host, board, callers, gate) : nullptr;  // outlives all replies
  const BoardStop stop_board{board};
  const GateStop stop_gate{gate};
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
    TRIREME_LOG(INFO) << "serves " << model.name << " at " << UrlOf(arguments, host, *server) << ", " << plan.context
                      << " tokens of context, " << plan.tokens << " in the KV cache";
  }
  service.Run();
  training.Close();
  gate.Open(nullptr, nullptr);
}

constexpr const char* kServeSummary =
    "Serves a model over HTTP as OpenAI's API does: /v1/chat/completions, /v1/completions, /v1/models; one of vectors, "
    "scores or labels at /v1/embeddings, /v1/rerank or /classify. Also\n"
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
      {.name = "max-images",
       .value_name = "N",
       .help = "images of one request to a model that sees; by default " + std::to_string(kMostImages) + "; 0: none"},
      {.name = "max-image-pixels",
       .value_name = "N",
       .help = "pixels of one image as it is sent; by default " + std::to_string(kMostImagePixels)}};
  for (Option& option : ListenOptions()) options.push_back(std::move(option));
  for (Option& option : DefaultsOptions()) options.push_back(std::move(option));
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
