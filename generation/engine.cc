#include "generation/engine.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <map>
#include <utility>

#include "core/base/clock.h"
#include "core/base/error.h"
#include "generation/adapter_set.h"
#include "generation/cache_bytes.h"
#include "generation/json_tokens.h"
#include "generation/step_pipeline.h"
#include "parallel/graph/rope.h"
#include "parallel/layers/key_value_cache.h"
#include "parallel/tensor/collectives.h"
#include "session/session.h"

namespace trireme {
namespace {

// Of the graph's rotary embedding; nullptr: it does not depend on the length.
std::function<int64_t(int64_t)> LengthClassOf(const LayerGraph& graph) {
  const RopeSpec* rope = LengthDependentRope(graph);
  if (rope == nullptr) return {};
  return [rope = *rope](int64_t length) { return LengthClass(rope, length); };
}

// Whether some layer keeps a state of a whole row: no part of it is another row's.
bool HasStates(const LayerGraph& graph) {
  return std::ranges::any_of(graph.layers, [](const Layer& layer) {
    const DecoderSpec* decoder = DecoderOf(layer.spec);
    return decoder != nullptr && decoder->attention.delta;
  });
}

bool HasImagePositions(const LayerGraph& graph) {
  return std::ranges::any_of(graph.layers, [](const Layer& layer) {
    const DecoderSpec* decoder = DecoderOf(layer.spec);
    return decoder != nullptr && !decoder->attention.rope.sections.empty();
  });
}

SchedulerOptions SchedulerOptionsOf(const EngineOptions& options, const LayerGraph& graph, int64_t stages) {
  const bool grows = options.max_total_tokens == 0;
  const int64_t tokens = grows ? options.max_rows * options.block_size : options.max_total_tokens;
  return {.block_size = options.block_size,
          .blocks = (tokens + options.block_size - 1) / options.block_size,
          .grows = grows,
          .max_rows = options.max_rows,
          .max_batched_tokens = std::max(options.max_batched_tokens, options.max_rows),
          .prefix_cache = options.prefix_cache && !HasStates(graph),
          .length_class = LengthClassOf(graph),
          .passes = stages};
}

}  // namespace

void RefuseUngeneratable(const Config& config) {
  if (config.parallel().context() == 1) return;
  throw InputError("parallel.context = ", config.parallel().context(),
                   ": generation does not split a sequence over ranks; set it to 1, or split the model with "
                   "parallel.tensor and parallel.pipeline");
}

int64_t CacheBytesPerToken(const Session& session) {
  return CacheBytesPerToken(session.graph(), session.config(), session.plan().grids);
}

int64_t StateBytesPerRow(const Session& session) {
  return StateBytesPerRow(session.graph(), session.config(), session.plan().grids);
}

class Engine::Parts {
 public:
  Parts(Session& session, const EngineOptions& options)
      : session_(session),
        tensor_(session.groups().Get("tp")),
        samples_(tensor_.rank() == 0 && session.Coordinate("cp") == 0),
        replica_(session.Coordinate("dp")),
        replicas_(session.plan().grids.dense.Size("dp")),
        // Sequence parallelism and experts split tokens over these ranks.
        token_multiple_(HasExperts(session.graph()) || session.config().parallel().sequence() ? tensor_.size() : 1),
        // Weights held by other data-parallel ranks, and experts, require that all ranks run together.
        together_(HasExperts(session.graph()) || session.config().parallel().zero() == 3),
        rotates_by_image_(HasImagePositions(session.graph())),
        has_tower_(session.plan().placement.SiteOf(0).rank == session.groups().Get("pp").rank()),
        json_tokens_(options.json_tokens),
        own_adapter_(session.graph().adapter && options.own_adapter),
        pipeline_(session, cache_, options.own_adapter),
        schedulers_(static_cast<size_t>(replicas_),
                    Scheduler(SchedulerOptionsOf(options, session.graph(), pipeline_.stages()))) {}

  // Ids count over all replicas: that of a row among its replica's, times replicas, plus the replica.
  int64_t Add(EngineRow row) {
    std::optional<PlacedImages> images = Placed(row);
    const int64_t replica = row.after ? *row.after % replicas_ : next_replica_++ % replicas_;
    RowRequest request{.prompt = std::move(row.prompt), .salt = adapters_.Salt(row.adapter, row.salt), .after = {}};
    if (row.after) request.after = *row.after / replicas_;
    if (images) request.contents = images->spans();
    TRIREME_CHECK(row.top || !row.prompt_log_probs);
    request.scores_prompt = row.prompt_log_probs;
    const size_t scored = row.prompt_log_probs ? request.prompt.size() - 1 : 0;
    const int64_t id = SchedulerOf(replica).Add(std::move(request)) * replicas_ + replica;
    rows_[id] = {.sampling = std::move(row.sampling),
                 .stream = row.stream,
                 .top = row.top,
                 .log_prob_temperature = row.log_prob_temperature,
                 .adapter = row.adapter};
    rows_[id].prompt_log_probs.resize(scored);
    if (row.json) rows_[id].json.emplace();
    rows_[id].images = std::move(images);
    adapters_.Use(row.adapter);
    return id;
  }

  void End(int64_t id) {
    SchedulerOf(id % replicas_).Remove(id / replicas_);
    const auto row = rows_.find(id);
    if (row == rows_.end()) return;
    adapters_.Release(row->second.adapter);
    rows_.erase(row);
    if (rows_.empty()) pipeline_.Clear();
  }

  std::vector<NewToken> Step() {
    const auto start = Clock::now();
    EngineStep step;
    for (Scheduler& scheduler : schedulers_) step.plans.push_back(scheduler.Plan());
    step.lines = LinesOf(step.plans);
    std::unique_ptr<StepPass> pass = PassOf(step);
    std::optional<StepPipeline::Done> done = pipeline_.Tick(std::move(step), std::move(pass));
    times_.stage_steps = pipeline_.stage_steps();
    times_.idle_stage_steps = pipeline_.idle_stage_steps();
    if (!done) return {};
    std::vector<NewToken> tokens = Finish(done->step.lines, done->logits);
    for (size_t i = 0; i < schedulers_.size(); ++i) schedulers_[i].Computed(done->step.plans[i]);
    for (NewToken& fresh : tokens) {
      SchedulerOf(fresh.row % replicas_).Append(fresh.row / replicas_, fresh.token);
      TakeJson(fresh);
    }
    Count(done->step.plans, SecondsSince(start));
    return tokens;
  }

  void Forget() {
    TRIREME_CHECK(idle());
    for (Scheduler& scheduler : schedulers_) scheduler.Forget();
    pipeline_.DropRecordings();
  }

  AdapterSet& adapters() { return adapters_; }
  int64_t AddAdapter(const std::string& directory) {
    if (own_adapter_)
      throw InputError(directory, ": the model has an adapter of its own already; serve its base model instead");
    return adapters_.Add(directory);
  }
  bool idle() const { return rows_.empty(); }
  int stages() const { return pipeline_.stages(); }
  int64_t cached(int64_t id) const {
    return std::max<int64_t>(schedulers_[static_cast<size_t>(id % replicas_)].cached(id / replicas_), 0);
  }
  const std::vector<Scheduler>& schedulers() const { return schedulers_; }
  const EngineTimes& times() const { return times_; }

 private:
  struct RowRules {
    Sampling sampling;
    int64_t stream = 0;
    std::optional<int64_t> top;
    double log_prob_temperature = 1;
    int64_t adapter = -1;
    std::optional<JsonGrammar> json = {};  // after the tokens so far
    std::optional<PlacedImages> images = {};
    std::vector<std::vector<TokenLogProb>> prompt_log_probs = {};  // as far as they are known
  };

  // Nothing: the prompt has no images, and no token that would stand for one.
  std::optional<PlacedImages> Placed(EngineRow& row) const {
    const std::optional<ImageInputs>& kind = session_.graph().images;
    if (!kind && !row.images.empty()) throw InputError("the prompt has images, but the model has no vision tower");
    if (!kind) return std::nullopt;
    PlacedImages placed(row.prompt, std::move(row.images), {kind->placeholder, kind->merge, kind->tile},
                        rotates_by_image_);
    return placed.empty() ? std::nullopt : std::optional(std::move(placed));
  }

  StepImages ImagesForStep() const {
    const auto of = [this](int64_t row) {
      const RowRules& rules = rows_.at(row * replicas_ + replica_);
      return rules.images ? &*rules.images : nullptr;
    };
    const std::optional<ImageInputs>& kind = session_.graph().images;
    return {.of = of, .elements = kind ? kind->elements : 0, .patches = has_tower_};
  }

  Scheduler& SchedulerOf(int64_t replica) { return schedulers_[static_cast<size_t>(replica)]; }

  // As StepPass wants them, replica by replica.
  std::vector<LogitLine> LinesOf(const std::vector<std::vector<RowStep>>& plans) const {
    std::vector<LogitLine> lines;
    for (size_t replica = 0; replica < plans.size(); ++replica) {
      for (const RowStep& step : plans[replica]) {
        const int64_t id = step.row * replicas_ + static_cast<int64_t>(replica);
        for (int64_t i = 0; i < step.scored; ++i) lines.push_back({.row = id, .prompt_token = step.past + i + 1});
        if (step.samples) lines.push_back({.row = id});
      }
    }
    return lines;
  }

  // This rank's part of a step; nullptr: nothing to compute.
  std::unique_ptr<StepPass> PassOf(const EngineStep& step) {
    const std::vector<RowStep>& mine = step.plans[static_cast<size_t>(replica_)];
    const bool busy = std::ranges::any_of(step.plans, [](const auto& plan) { return !plan.empty(); });
    if (mine.empty() && !(together_ && busy)) return nullptr;
    auto pass = std::make_unique<StepPass>(mine, SchedulerOf(replica_), token_multiple_, ImagesForStep());
    pass->adapters =
        adapters_.ForPass(AdaptersOf(step.plans), replica_, pass->input.length, session_.tensors().torch());
    return pass;
  }

  // One rank of each replica samples; the sum over all ranks distributes the results. Rows that were ended in
  // the meantime get nothing.
  std::vector<NewToken> Finish(const std::vector<LogitLine>& lines, const at::Tensor& logits) {
    if (lines.empty()) return {};
    std::optional<int64_t> top;  // log-probabilities in a line of numbers
    for (const LogitLine& line : lines) top = rows_.contains(line.row) ? std::max(top, rows_.at(line.row).top) : top;
    const int64_t width = top ? 1 + 2 * *top : 0;
    at::Tensor tokens = at::zeros({std::ssize(lines)}, at::kLong);
    at::Tensor log_probs = at::zeros({std::ssize(lines), width}, at::kFloat);
    if (logits.defined() && samples_) Sample(lines, logits, tokens, log_probs);
    tokens = SumOverRanks(tokens);
    if (width > 0) log_probs = SumOverRanks(log_probs);
    return ReadTokens(lines, tokens, log_probs);
  }

  at::Tensor SumOverRanks(const at::Tensor& mine) const {
    const at::Tensor sum = mine.to(session_.tensors().torch());
    StartAllReduce(sum, session_.world()).WaitOnHost();
    return sum.to(at::kCPU);
  }

  // The adapter of each planned row, of all replicas.
  AdaptersOfRows AdaptersOf(const std::vector<std::vector<RowStep>>& plans) const {
    AdaptersOfRows adapters(plans.size());
    for (size_t replica = 0; replica < plans.size(); ++replica) {
      for (const RowStep& step : plans[replica]) {
        const RowRules& row = rows_.at(step.row * replicas_ + static_cast<int64_t>(replica));
        adapters[replica].push_back({.adapter = row.adapter, .tokens = step.fresh});
      }
    }
    return adapters;
  }

  // Whether a row wants its most likely token and nothing else.
  static bool IsGreedy(const RowRules& row) {
    return row.sampling.temperature == 0 && !row.sampling.adjusts() && !row.top && !row.json;
  }

  // Only the tokens travel to the host.
  void TakeLikeliest(const std::vector<LogitLine>& lines, const at::Tensor& logits, at::Tensor& tokens) const {
    const at::Tensor best = logits.argmax(-1).to(at::kCPU);
    const int64_t* next = best.data_ptr<int64_t>();
    for (size_t i = 0; i < lines.size(); ++i) {
      if (lines[i].row % replicas_ == replica_) tokens.data_ptr<int64_t>()[i] = *next++;
    }
  }

  // A row's next token, or what one of its prompt is worth, from a line of logits.
  struct Draw {
    LogitLine line;
    const RowRules* row;
    std::span<float> logits;
    int64_t* token;
    float* numbers;
  };

  // The logits have this replica's lines, in order.
  void Sample(const std::vector<LogitLine>& lines, const at::Tensor& logits, at::Tensor& tokens,
              at::Tensor& log_probs) {
    const bool greedy = std::ranges::all_of(lines, [&](const LogitLine& line) {
      return line.row % replicas_ != replica_ || !rows_.contains(line.row) || IsGreedy(rows_.at(line.row));
    });
    if (logits.is_cuda() && greedy) return TakeLikeliest(lines, logits, tokens);
    const at::Tensor on_host = logits.to(at::kFloat).to(at::kCPU).contiguous();
    const auto vocabulary = static_cast<size_t>(on_host.size(1));
    float* next_line = on_host.data_ptr<float>();
    std::vector<Draw> draws;
    for (size_t i = 0; i < lines.size(); ++i) {
      if (lines[i].row % replicas_ != replica_) continue;
      float* line = std::exchange(next_line, next_line + vocabulary);
      const auto row = rows_.find(lines[i].row);
      if (row == rows_.end()) continue;
      float* numbers =
          log_probs.size(1) == 0 ? nullptr : log_probs.data_ptr<float>() + static_cast<int64_t>(i) * log_probs.size(1);
      draws.push_back({lines[i], &row->second, {line, vocabulary}, tokens.data_ptr<int64_t>() + i, numbers});
    }
    // Rows with a grammar take turns: they share what was found out about it.
    const auto with_grammar = std::ranges::partition(draws, [](const Draw& draw) { return !draw.row->json; });
    at::parallel_for(0, with_grammar.begin() - draws.begin(), 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) Choose(draws[static_cast<size_t>(i)]);
    });
    for (const Draw& draw : with_grammar) Choose(draw);
  }

  // The logits may change. numbers: the token's log-probability, then pairs of a likely token and its own.
  void Choose(const Draw& draw) {
    const RowRules& row = *draw.row;
    const std::span<float> logits = draw.logits;
    const Scheduler& scheduler = SchedulerOf(replica_);
    const int64_t id = draw.line.row / replicas_;
    const std::span<const int64_t> known(scheduler.tokens(id));
    if (draw.line.prompt_token >= 0) {
      const int64_t token = known[static_cast<size_t>(draw.line.prompt_token)];
      return WriteLogProbs(LogProbs(logits, token, *row.top, row.log_prob_temperature), draw.numbers);
    }
    const auto prompt = static_cast<size_t>(scheduler.prompt_size(id));
    std::vector<float> own;  // the model's, before anything is adjusted
    if (row.top && (row.sampling.adjusts() || row.json)) own.assign(logits.begin(), logits.end());
    if (row.sampling.adjusts()) AdjustLogits(logits, row.sampling, known.first(prompt), known.subspan(prompt));
    if (row.json) json_tokens_->Restrict(logits, *row.json);
    *draw.token = ChooseToken(logits, row.sampling, row.stream, std::ssize(known));
    if (!row.top) return;
    WriteLogProbs(
        LogProbs(own.empty() ? std::span<const float>(logits) : own, *draw.token, *row.top, row.log_prob_temperature),
        draw.numbers);
  }

  static void WriteLogProbs(const std::vector<TokenLogProb>& found, float* numbers) {
    numbers[0] = found[0].log_prob;
    for (size_t i = 1; i < found.size(); ++i) {
      numbers[2 * i - 1] = static_cast<float>(found[i].token);  // exact: vocabularies are below 2^24
      numbers[2 * i] = found[i].log_prob;
    }
  }

  static std::vector<TokenLogProb> ReadLogProbs(int64_t token, int64_t top, const float* numbers) {
    std::vector<TokenLogProb> log_probs = {{token, numbers[0]}};
    for (int64_t k = 0; k < top; ++k) {
      log_probs.push_back({static_cast<int64_t>(numbers[2 * k + 1]), numbers[2 * k + 2]});
    }
    return log_probs;
  }

  // On every rank, so that each could sample the next one.
  void TakeJson(NewToken& fresh) {
    std::optional<JsonGrammar>& json = rows_.at(fresh.row).json;
    if (!json) return;
    json_tokens_->Take(*json, fresh.token);
    fresh.complete = json->complete();
  }

  // What is found of a prompt waits for the row's first token.
  std::vector<NewToken> ReadTokens(const std::vector<LogitLine>& lines, const at::Tensor& tokens,
                                   const at::Tensor& log_probs) {
    std::vector<NewToken> fresh;
    for (size_t i = 0; i < lines.size(); ++i) {
      const auto [id, prompt_token] = lines[i];
      const auto found = rows_.find(id);
      if (found == rows_.end()) continue;
      RowRules& row = found->second;
      const float* numbers = row.top ? log_probs[static_cast<int64_t>(i)].data_ptr<float>() : nullptr;
      if (prompt_token >= 0) {
        const int64_t token = SchedulerOf(id % replicas_).tokens(id / replicas_)[static_cast<size_t>(prompt_token)];
        row.prompt_log_probs.at(static_cast<size_t>(prompt_token) - 1) = ReadLogProbs(token, *row.top, numbers);
        continue;
      }
      NewToken one{.row = id, .token = tokens.data_ptr<int64_t>()[i]};
      if (row.top) one.log_probs = ReadLogProbs(one.token, *row.top, numbers);
      one.prompt_log_probs = std::exchange(row.prompt_log_probs, {});
      fresh.push_back(std::move(one));
    }
    return fresh;
  }

  // A step of both kinds counts for each by its tokens.
  void Count(const std::vector<std::vector<RowStep>>& plans, double seconds) {
    int64_t decoded = 0, read = 0;
    for (const auto& plan : plans) {
      for (const RowStep& step : plan) (step.decodes ? decoded : read) += step.fresh;
    }
    if (decoded + read == 0) return;
    const double share = static_cast<double>(decoded) / static_cast<double>(decoded + read);
    times_.new_tokens += decoded;
    times_.prompt_tokens += read;
    times_.new_seconds += share * seconds;
    times_.prompt_seconds += (1 - share) * seconds;
  }

  Session& session_;
  Communicator& tensor_;
  const bool samples_;  // one rank of each replica, on the stage with the head
  const int replica_, replicas_;
  const int64_t token_multiple_;
  const bool together_;
  const bool rotates_by_image_;  // M-RoPE: an image's tokens take fewer positions than they are
  const bool has_tower_;         // the first stage is on this rank
  const std::shared_ptr<const JsonTokens> json_tokens_;
  const bool own_adapter_;  // the session has one, and rows use it
  KeyValueCache cache_;
  StepPipeline pipeline_;
  std::vector<Scheduler> schedulers_;  // by replica
  std::map<int64_t, RowRules> rows_;
  int64_t next_replica_ = 0;
  AdapterSet adapters_{session_};
  EngineTimes times_;
};

Engine::Engine(Session& session, const EngineOptions& options) {
  if (!options.repeat_context) RefuseUngeneratable(session.config());
  parts_ = std::make_unique<Parts>(session, options);
}
Engine::~Engine() = default;

int64_t Engine::Add(EngineRow row) { return parts_->Add(std::move(row)); }
void Engine::End(int64_t row) { parts_->End(row); }
std::vector<NewToken> Engine::Step() { return parts_->Step(); }
int64_t Engine::AddAdapter(const std::string& directory) { return parts_->AddAdapter(directory); }
void Engine::DropAdapter(int64_t adapter) { parts_->adapters().Drop(adapter); }
bool Engine::has_adapter(int64_t adapter) const { return parts_->adapters().Has(adapter); }
void Engine::Forget() { parts_->Forget(); }
bool Engine::idle() const { return parts_->idle(); }
int Engine::stages() const { return parts_->stages(); }
int64_t Engine::cached(int64_t row) const { return parts_->cached(row); }
const EngineTimes& Engine::times() const { return parts_->times(); }

SchedulerCounts Engine::counts() const {
  SchedulerCounts sum;
  for (const Scheduler& scheduler : parts_->schedulers()) {
    const SchedulerCounts counts = scheduler.counts();
    sum.running += counts.running;
    sum.waiting += counts.waiting;
    sum.preemptions += counts.preemptions;
    sum.prefix_queries += counts.prefix_queries;
    sum.prefix_hits += counts.prefix_hits;
  }
  return sum;
}

double Engine::cache_usage() const {
  double used = 0, all = 0;
  for (const Scheduler& scheduler : parts_->schedulers()) {
    used += static_cast<double>(scheduler.pool().size() - scheduler.pool().available());
    all += static_cast<double>(scheduler.pool().size());
  }
  return all > 0 ? used / all : 0;
}

}  // namespace trireme
