// `trireme bench generate`: how fast the engine reads prompts and generates, on random weights and tokens of a
// model's shape, and which fraction of the memory's bandwidth generating uses. One JSON line.
#include <algorithm>
#include <iostream>
#include <memory>
#include <numeric>
#include <vector>

#include "core/base/clock.h"
#include "core/base/json.h"
#include "core/base/random.h"
#include "core/cli/command.h"
#include "core/tensor/kernel_times.h"
#include "core/tensor/matrix_rate.h"
#include "core/tensor/torch_errors.h"
#include "generation/engine.h"
#include "launch/layout.h"
#include "parallel/layers/embedding.h"
#include "session/session.h"

namespace trireme {
namespace {

struct GenerateShape {
  int64_t rows = 1, prompt_tokens = 64, new_tokens = 32;
};

struct GenerateTimes {
  double prefill = 0;         // seconds, until each row has its first token
  std::vector<double> steps;  // seconds per token of every row, after that
};

std::vector<int64_t> RandomPrompt(int64_t row, int64_t length, int64_t vocabulary) {
  const RandomStream random(1, "tokens of bench generate");
  std::vector<int64_t> prompt;
  for (int64_t i = 0; i < length; ++i) {
    prompt.push_back(
        static_cast<int64_t>(random.Below(static_cast<uint64_t>(vocabulary), static_cast<uint64_t>(row * length + i))));
  }
  return prompt;
}

// All rows start together and get as many tokens each.
GenerateTimes RunRows(Session& session, const GenerateShape& shape, int64_t rows) {
  Engine engine(session, {.max_rows = shape.rows,
                          .max_total_tokens = shape.rows * (shape.prompt_tokens + shape.new_tokens + 64),
                          .prefix_cache = false});
  std::vector<int64_t> ids;
  const LayerGraph& graph = session.graph();  // prompts without image tokens
  const int64_t most = graph.images ? graph.images->placeholder : VocabularyOf(graph);
  for (int64_t row = 0; row < rows; ++row) {
    ids.push_back(engine.Add({.prompt = RandomPrompt(row, shape.prompt_tokens, most)}));
  }
  GenerateTimes times;
  const Clock::time_point start = Clock::now();
  for (size_t first = 0; first < ids.size();) first += engine.Step().size();
  times.prefill = SecondsSince(start);
  const int stages = session.plan().placement.stages();  // a token of each row takes as many steps
  for (int64_t i = 0; i < shape.new_tokens; ++i) {
    const Clock::time_point step = Clock::now();
    for (int stage = 0; stage < stages; ++stage) engine.Step();
    times.steps.push_back(SecondsSince(step));
  }
  for (const int64_t id : ids) engine.End(id);
  return times;
}

// The fraction of a weight that a step of `rows` tokens reads: of a stack of experts, those they can choose.
double ReadFraction(const LayerGraph& graph, const std::string& name, int64_t rows) {
  if (name == kEmbeddingWeight && !HasTiedHead(graph)) return 0;  // rows are looked up
  for (const Layer& layer : graph.layers) {
    const DecoderSpec* decoder = DecoderOf(layer.spec);
    if (decoder == nullptr || !decoder->experts || !name.starts_with(layer.name + ".experts.")) continue;
    const RouterRule& rule = decoder->experts->router;
    return std::min(1.0, static_cast<double>(rows * rule.top_k) / static_cast<double>(rule.experts));
  }
  return 1;
}

double WeightBytesPerStep(Session& session, int64_t rows) {
  double bytes = 0;
  for (const Weights::Entry& entry : session.model().weights().entries()) {
    const at::Tensor& stored = entry.weight.packed ? entry.weight.packed->bytes : entry.weight.value;
    if (!stored.defined()) continue;
    bytes += ReadFraction(session.graph(), entry.weight.name, rows) * static_cast<double>(stored.nbytes());
  }
  return bytes;
}

// One more run under the profiler: a JSON line for each kernel, most time first.
void SayKernelsOf(Session& session, const GenerateShape& shape, int64_t rows, Job& job) {
  GenerateTimes times;
  const std::vector<KernelTime> kernels = TimeKernels([&] { times = RunRows(session, shape, rows); });
  const double steps = std::accumulate(times.steps.begin(), times.steps.end(), 0.0);
  if (job.rank() != 0) return;
  for (const KernelTime& kernel : kernels) {
    std::cout << JsonLine({{"kernel", kernel.name},
                           {"calls", kernel.calls},
                           {"kernel_seconds", kernel.seconds},
                           {"share", kernel.seconds / (times.prefill + steps)}})
              << "\n";
  }
}

void BenchGenerate(const Arguments& arguments, Job& job) {
  const Config config = ModelConfigOf(arguments, job);
  const GenerateShape shape{.rows = arguments.integer("rows", 1, 1),
                            .prompt_tokens = arguments.integer("prompt-tokens", 64, 1),
                            .new_tokens = arguments.integer("new-tokens", 32, 1)};
  const int64_t repeats = arguments.integer("repeats", 3, 1);
  RefuseUngeneratable(config);
  const std::unique_ptr<Session> session = Session::Open(config, job, {.trained = false});
  session->DrawWeights(static_cast<uint64_t>(config.run().seed()));
  const int64_t rows = shape.rows * session->plan().grids.dense.Size("dp");
  double prefill = 0, read_rate = 0;
  std::vector<double> steps;
  for (int64_t i = 0; i <= repeats; ++i) {  // the first warms up
    job.Barrier();
    const GenerateTimes times = RunRows(*session, shape, rows);
    if (i == 0) continue;
    prefill = i == 1 ? times.prefill : std::min(prefill, times.prefill);
    steps.insert(steps.end(), times.steps.begin(), times.steps.end());
    job.Barrier();
    read_rate = std::max(read_rate, MeasureReadRate(session->tensors()));
  }
  std::sort(steps.begin(), steps.end());
  const double median = job.Max(steps[steps.size() / 2]), best = job.Max(steps.front());
  const double bytes = WeightBytesPerStep(*session, shape.rows) +
                       static_cast<double>(CacheBytesPerToken(*session) * shape.rows * shape.prompt_tokens);
  const double share = job.Max(bytes / best / read_rate), median_share = job.Max(bytes / median / read_rate);
  if (arguments.has("kernels")) SayKernelsOf(*session, shape, rows, job);
  if (job.rank() != 0) return;
  std::cout << JsonLine({{"prefill_tokens_per_second", static_cast<double>(rows * shape.prompt_tokens) / prefill},
                         {"decode_tokens_per_second", static_cast<double>(rows) / best},
                         {"median_decode_tokens_per_second", static_cast<double>(rows) / median},
                         {"rows", rows},
                         {"bandwidth_share", share},
                         {"median_bandwidth_share", median_share},
                         {"step_bytes", bytes},
                         {"read_gbs", read_rate / 1e9},
                         {"prompt_tokens", shape.prompt_tokens},
                         {"new_tokens", shape.new_tokens},
                         {"ranks", job.world()}})
            << "\n";
}

constexpr const char* kBenchGenerateSummary =
    "Times the generation engine on random weights and tokens, one JSON line. Each data-parallel rank gets\n"
    "--rows prompts at once; decode_tokens_per_second is that of the best step, the median beside it.\n"
    "bandwidth_share compares the bytes of weights and cache that a step must read with read_gbs, what this\n"
    "rank's threads read from memory in the same run. Of DIR only config.json is read.";

}  // namespace

Command BenchGenerateCommand() {
  return {.name = "bench generate",
          .summary = kBenchGenerateSummary,
          .options = {{.name = "model",
                       .value_name = "DIR",
                       .help = "a Hugging Face model directory; only its config.json is read",
                       .required = true},
                      {.name = "rows", .value_name = "N", .help = "rows at once; by default 1"},
                      {.name = "prompt-tokens", .value_name = "N", .help = "tokens of each prompt; by default 64"},
                      {.name = "new-tokens", .value_name = "N", .help = "timed steps; by default 32"},
                      {.name = "repeats", .value_name = "N", .help = "how often; the best counts; by default 3"},
                      {.name = "kernels",
                       .value_name = "",
                       .help = "also the device's kernels of one more run on rank 0, a line each"}},
          .positionals = {{.name = kRunFile,
                           .help = "the run whose layout is used; by default all keys have their defaults",
                           .required = false}},
          .takes_config = true,
          .run = [](const Arguments& arguments, Job& job) { WithTorchErrors([&] { BenchGenerate(arguments, job); }); }};
}

}  // namespace trireme
