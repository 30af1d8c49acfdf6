#include "launch/serve_texts.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <vector>

#include "board/board.h"
#include "core/base/clock.h"
#include "core/base/error.h"
#include "core/base/log.h"
#include "core/base/stop_signals.h"
#include "data/record_fields.h"
#include "generation/text/prompts.h"
#include "launch/listening.h"
#include "launch/serve_defaults.h"
#include "launch/serve_gate.h"
#include "launch/serve_listen.h"
#include "launch/serve_training.h"
#include "launch/served_model.h"
#include "launch/text_directory.h"
#include "serve/callers.h"
#include "serve/text_routes.h"
#include "session/session.h"
#include "stages/retrieval_check.h"
#include "train/step/text_numbers.h"

namespace trireme {
namespace {

constexpr int64_t kUnknownContext = 8192;  // where neither the model nor its tokenizer's module says

void RefuseOptionsOfWriters(const Arguments& arguments, const Config& config) {
  std::vector<std::string> names = {"adapter-directory", "adapter-key-file", "tool-call-parser", "max-rows",
                                    "kv-cache-gib",      "max-total-tokens", "max-images",       "max-image-pixels"};
  for (const auto& options : {DefaultsOptions(), TrainingOptions()}) {
    for (const Option& option : options) names.push_back(option.name);
  }
  for (const std::string& name : names) {
    if (!arguments.has(name)) continue;
    throw InputError("--", name, ": is for models that write text; this one is of stage ", FactsOf(config).name);
  }
  if (!arguments.has("adapters")) return;
  throw InputError("--adapters: of stage ", FactsOf(config).name, " one model is served; give the adapter as --model ",
                   "(its base is the one that it names), or merge it with `trireme merge`");
}

int64_t ContextOf(const Arguments& arguments, const Config& config, const TextDirectory& files) {
  const int64_t most = MostPositions(config.model().path()).value_or(files.longest.value_or(kUnknownContext));
  const int64_t context = arguments.integer("max-model-len", std::min(most, files.longest.value_or(most)), 1);
  if (context <= most) return context;
  throw InputError("--max-model-len ", context, ": the model supports ", most, " (max_position_embeddings)");
}

SampleTokenizer::Options TokenizerOf(const Config& config) {
  return {.model = config.model().path(),
          .chat_template = config.data().template_(),
          .records = FactsOf(config).records,
          .template_values = TemplateValuesOf(config.data())};
}

int64_t NumbersOf(const Config& config, const LayerGraph& graph) {
  const auto& head = std::get<HeadSpec>(graph.layers.back().spec);
  const int64_t numbers = HeadOf(config) == HeadKind::kVector ? head.hidden : head.scores ? head.vocabulary : 1;
  for (const int64_t size : config.retrieval().matryoshka()) {
    if (size > numbers)
      throw InputError("retrieval.matryoshka has ", size, "; the model's vectors have ", numbers, " numbers");
  }
  return numbers;
}

ServedTexts ServedOf(const Arguments& arguments, const Config& config, const LayerGraph& graph,
                     const TextDirectory& files, const std::string& directory, const SampleTokenizer& tokenizer) {
  ServedTexts served{.name = arguments.value("served-model-name", LastComponent(directory)),
                     .created = UnixSeconds(),
                     .tokenizer = tokenizer,
                     .options = TextOptionsOf(config),
                     .vocabulary = VocabularyOf(graph),
                     .context = ContextOf(arguments, config, files),
                     .numbers = NumbersOf(config, graph),
                     .prompts = files.prompts,
                     .default_prompt = files.default_prompt};
  served.options.truncate = 0;  // requests say whether texts may be cut
  const RetrievalConfig& keys = config.retrieval();
  for (const auto& [name, prompt] :
       {std::pair("query", keys.query_prompt()), std::pair("document", keys.document_prompt())}) {
    if (!prompt.empty()) served.prompts[name] = prompt;
  }
  return served;
}

}  // namespace

bool GivesTexts(const Config& config) { return TrainsTexts(FactsOf(config)); }

void ServeTexts(const Arguments& arguments, Config config, const ModelSource& source, const std::string& directory,
                Job& job) {
  RefuseOptionsOfWriters(arguments, config);
  const TextDirectory files = arguments.Overrides("stage") ? TextDirectory() : ReadTextDirectory(directory);
  UseModel(source, config);
  config.mutable_run()->set_micro_batch(1);
  CheckStage(config);
  PlannedModel planned = PlanModel(config, job.world());
  const bool speaks = job.rank() == 0;
  const std::string host = arguments.value("host", "127.0.0.1");
  const SampleTokenizer tokenizer(TokenizerOf(config));
  tokenizer.tokenizer();  // one that cannot be read ends the server here
  const ServedTexts served = ServedOf(arguments, config, planned.graph, files, directory, tokenizer);
  const Callers callers(ApiKeys::Read(arguments.value("api-key-file")), AllowedHosts(arguments, host), ApiKeys());
  if (speaks && callers.anyone()) WarnOfOpenDoors(arguments, host);
  const TextLimits limits{.waiting = arguments.integer("max-waiting", 256, 0),
                          .tokens = arguments.integer("max-batched-tokens", 2048, 1),
                          .drain_seconds = arguments.number("drain-seconds", 30)};
  const StopSignals signals(/*speaks=*/false);  // its text is of runs that save
  Gate gate(/*trains=*/false);
  Board board({.outputs = speaks ? arguments.values("board") : std::vector<std::string>(),
               .has_chat = false,
               .has_images = false,
               .has_remote = false},
              callers);
  const std::unique_ptr<HttpServer> server =
      speaks ? Listen(arguments, host, board, callers, gate) : nullptr;  // outlives all replies
  const BoardStop stop_board{board};
  const GateStop stop_gate{gate};
  Session session(config, std::move(planned), job, {.trained = false});
  session.TakeWeights();
  const TextNumbers numbers(session);
  TextService service([&numbers](const auto& texts) { return numbers.OfTexts(texts); }, limits, job);
  TextRoutes routes(service, served, callers);
  gate.Open(&routes, nullptr);
  if (speaks) {
    TRIREME_LOG(INFO) << "serves " << served.name << " at " << UrlOf(arguments, host, *server) << ", stage "
                      << FactsOf(config).name << ", texts of up to " << served.context << " tokens";
  }
  service.Run();
  gate.Open(nullptr, nullptr);
}

}  // namespace trireme
