#include "train/generation/generator.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <chrono>

#include "core/base/error.h"
#include "parallel/layers/key_value_cache.h"
#include "parallel/objectives/next_token_logits.h"
#include "parallel/tensor/collectives.h"
#include "session/session.h"

namespace trireme {
namespace {

using Tokens = std::vector<int64_t>;

struct RowState {
  size_t prompt = 0;  // index among all prompts
  int replica = 0;    // the data-parallel rank that decodes it
  int64_t slot = 0;   // its row in that rank's batch
  int64_t past = 0;   // tokens in the cache
  Tokens next = {};   // tokens to feed to the model next
  bool alive = true;
};

bool AnyAlive(const std::vector<RowState>& rows) {
  return std::any_of(rows.begin(), rows.end(), [](const RowState& row) { return row.alive; });
}

int64_t RoundUp(int64_t number, int64_t multiple) { return (number + multiple - 1) / multiple * multiple; }

int64_t CommonLength(const Tokens& a, const Tokens& b) {
  return std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin();
}

// One pass over the active rows: each row's next tokens, right-padded.
struct Pass {
  PassInput batch;
  at::Tensor wanted;  // [slots] the last token of each row
  CachedRows cached;

  Pass(const std::vector<const RowState*>& rows, int64_t slots) {
    batch.rows = slots;
    batch.length = 1;
    for (const RowState* row : rows) {
      batch.length = std::max(batch.length, static_cast<int64_t>(row->next.size()));
    }
    cached = {Tokens(slots, 0), Tokens(slots, 0)};
    Tokens tokens(slots * batch.length, 0), positions(tokens), last(slots, 0);
    std::vector<uint8_t> real(tokens.size(), 0);
    for (const RowState* row : rows) {
      const auto count = static_cast<int64_t>(row->next.size()), begin = row->slot * batch.length;
      cached.past[row->slot] = row->past;
      cached.fresh[row->slot] = count;
      last[row->slot] = begin + count - 1;
      for (int64_t i = 0; i < count; ++i) {
        tokens[begin + i] = row->next[i];
        positions[begin + i] = row->past + i;
        real[begin + i] = 1;
      }
    }
    batch.tokens = at::tensor(tokens, at::kLong);
    batch.positions = at::tensor(positions, at::kLong);
    wanted = at::tensor(last, at::kLong);
    batch.real = at::tensor(real, at::kByte).to(at::kBool);
  }

  void MoveTo(const at::Device& device) {
    for (at::Tensor* tensor : {&batch.tokens, &batch.positions, &wanted, &batch.real}) {
      *tensor = tensor->to(device);
    }
  }
};

}  // namespace

void RefuseUngeneratable(const Config& config) {
  if (config.parallel().context() == 1) return;
  throw InputError("parallel.context = ", config.parallel().context(),
                   ": generation does not split a sequence over ranks; set it to 1, or split the model with "
                   "parallel.tensor and parallel.pipeline");
}

class Generator::Parts {
 public:
  explicit Parts(Session& session)
      : session_(session),
        tensor_(session.groups().Get("tp")),
        replica_(session.Coordinate("dp")),
        replicas_(session.plan().grids.dense.Size("dp")),
        // Sequence parallelism and experts split tokens over these ranks.
        row_multiple_(HasExperts(session.graph()) || session.config().parallel().sequence() ? tensor_.size() : 1),
        // Weights held by other data-parallel ranks, and experts, require that all ranks run together.
        together_(HasExperts(session.graph()) || session.config().parallel().zero() == 3) {}

  const GenerationTimes& times() const { return times_; }

  // The rows from `first` on, as many as all replicas decode at once.
  void Round(const std::vector<Tokens>& prompts, size_t first, const GenerationOptions& options,
             const TakeToken& take) {
    std::vector<RowState> rows = Deal(prompts.size(), first, options.batch);
    BeginRows(rows, prompts, options.keep_cache);
    for (bool prompt = true; AnyAlive(rows); prompt = false) {
      const auto start = std::chrono::steady_clock::now();
      const Tokens chosen = Step(rows, options.sampling);
      Count(rows, prompt, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
      for (size_t i = 0; i < rows.size(); ++i) {
        if (!rows[i].alive) continue;
        Passed(rows[i]);
        rows[i].next = {chosen[i]};
        rows[i].alive = take(rows[i].prompt, chosen[i]);
      }
    }
  }

  size_t rows_a_round(int64_t batch) const {
    return static_cast<size_t>(batch) * static_cast<size_t>(replicas_);
  }

 private:
  std::vector<RowState> Deal(size_t total, size_t first, int64_t batch) const {
    std::vector<RowState> rows(std::min(total - first, rows_a_round(batch)));
    for (size_t i = 0; i < rows.size(); ++i) {
      rows[i].prompt = first + i;
      rows[i].replica = static_cast<int>(i) % replicas_;
      rows[i].slot = static_cast<int64_t>(i) / replicas_;
    }
    return rows;
  }

  bool Mine(const RowState& row) const { return row.replica == replica_; }

  void BeginRows(std::vector<RowState>& rows, const std::vector<Tokens>& prompts, bool keep_cache) {
    const auto mine = std::count_if(rows.begin(), rows.end(), [&](const RowState& row) { return Mine(row); });
    const int64_t slots = RoundUp(std::max<int64_t>(mine, 1), row_multiple_);
    if (!keep_cache || slots != static_cast<int64_t>(held_.size())) {
      cache_ = {};
      held_.assign(slots, {});
    }
    for (RowState& row : rows) {
      const Tokens& prompt = prompts[row.prompt];
      // The last token is always fed: its logits are needed.
      if (Mine(row))
        row.past = std::min<int64_t>(CommonLength(held_[row.slot], prompt), std::ssize(prompt) - 1);
      row.next.assign(prompt.begin() + row.past, prompt.end());
      if (Mine(row)) held_[row.slot].resize(row.past);
    }
  }

  void Passed(RowState& row) {
    row.past += std::ssize(row.next);
    if (Mine(row)) held_[row.slot].insert(held_[row.slot].end(), row.next.begin(), row.next.end());
  }

  // The next token of every active row, the same on every rank; 0 for others.
  Tokens Step(const std::vector<RowState>& rows, const Sampling& sampling) {
    std::vector<const RowState*> mine;
    for (const RowState& row : rows) {
      if (Mine(row) && row.alive) mine.push_back(&row);
    }
    at::Tensor chosen = at::zeros({std::ssize(rows)}, at::kLong);
    if (together_ || !mine.empty()) {
      const at::Tensor logits = Logits(mine);
      if (logits.defined() && tensor_.rank() == 0) Sample(rows, logits, sampling, chosen.data_ptr<int64_t>());
    }
    chosen = chosen.to(session_.tensors().torch());
    StartAllReduce(chosen, session_.world()).WaitOnHost();
    chosen = chosen.to(at::kCPU);
    return Tokens(chosen.data_ptr<int64_t>(), chosen.data_ptr<int64_t>() + chosen.numel());
  }

  at::Tensor Logits(const std::vector<const RowState*>& mine) {
    const at::NoGradGuard no_graph;
    Pass pass(mine, std::ssize(held_));
    pass.MoveTo(session_.tensors().torch());
    cache_.Begin(pass.cached);
    const NextTokenLogits objective(pass.wanted);
    PassBatch batch({std::move(pass.batch)}, {.objective = &objective, .differentiate = false, .cache = &cache_});
    session_.Infer(batch);
    return batch.result().outputs[0].logits;
  }

  // One rank of each replica samples; the sum over all ranks distributes the result.
  void Sample(const std::vector<RowState>& rows, const at::Tensor& logits, const Sampling& sampling,
              int64_t* chosen) const {
    if (sampling.temperature == 0) return TakeBest(rows, logits, chosen);
    const at::Tensor on_host = logits.to(at::kFloat).to(at::kCPU).contiguous();
    const auto vocabulary = static_cast<size_t>(on_host.size(1));
    for (size_t i = 0; i < rows.size(); ++i) {
      const RowState& row = rows[i];
      if (!Mine(row) || !row.alive) continue;
      const float* first = on_host.data_ptr<float>() + row.slot * on_host.size(1);
      chosen[i] = ChooseToken({first, vocabulary}, sampling, static_cast<int64_t>(row.prompt),
                              row.past + std::ssize(row.next));
    }
  }

  // Where the logits are: only the tokens travel to the host. The first of equals.
  void TakeBest(const std::vector<RowState>& rows, const at::Tensor& logits, int64_t* chosen) const {
    const at::Tensor best = logits.argmax(-1).to(at::kCPU);
    for (size_t i = 0; i < rows.size(); ++i) {
      if (Mine(rows[i]) && rows[i].alive) chosen[i] = best.data_ptr<int64_t>()[rows[i].slot];
    }
  }

  void Count(const std::vector<RowState>& rows, bool prompt, double seconds) {
    int64_t tokens = 0;
    for (const RowState& row : rows) tokens += row.alive ? std::ssize(row.next) : 0;
    (prompt ? times_.prompt_tokens : times_.new_tokens) += tokens;
    (prompt ? times_.prompt_seconds : times_.new_seconds) += seconds;
  }

  Session& session_;
  Communicator& tensor_;
  const int replica_, replicas_;
  const int64_t row_multiple_;
  const bool together_;
  KeyValueCache cache_;
  std::vector<Tokens> held_;  // [slots] tokens whose keys and values are cached
  GenerationTimes times_;
};

Generator::Generator(Session& session) : parts_(std::make_unique<Parts>(session)) {
  RefuseUngeneratable(session.config());
}

Generator::~Generator() = default;

void Generator::Run(const std::vector<std::vector<int64_t>>& prompts, const GenerationOptions& options,
                    const TakeToken& take) {
  for (size_t first = 0; first < prompts.size(); first += parts_->rows_a_round(options.batch)) {
    parts_->Round(prompts, first, options, take);
  }
}

const GenerationTimes& Generator::times() const { return parts_->times(); }

}  // namespace trireme
