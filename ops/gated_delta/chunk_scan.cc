#include "ops/gated_delta/chunk_scan.h"

#include <ATen/ATen.h>

#include <cmath>
#include <tuple>
#include <utility>

namespace trireme {
namespace {

constexpr double kLengthEps = 1e-6;  // transformers' l2norm

at::Tensor PlacesOn(const at::Device& device, const std::vector<int64_t>& places) {
  return at::tensor(places, at::kLong).to(device);
}

// Rows of `x` by their lengths' inverses, and those.
std::pair<at::Tensor, at::Tensor> UnitRows(const at::Tensor& x) {
  const at::Tensor inverse = (x.square().sum(-1, /*keepdim=*/true) + kLengthEps).rsqrt();
  return {x * inverse, inverse};
}

// The gradient of rows before UnitRows.
at::Tensor UnitRowsBackward(const at::Tensor& gradient, const at::Tensor& unit, const at::Tensor& inverse) {
  return (gradient - unit * (gradient * unit).sum(-1, /*keepdim=*/true)) * inverse;
}

double QueryScale(const at::Tensor& query) { return 1 / std::sqrt(static_cast<double>(query.size(-1))); }

// exp(c_last - c) and exp(c_last), for the state after a chunk.
at::Tensor UntilEnd(const at::Tensor& decay) {
  return (decay.narrow(-1, decay.size(-1) - 1, 1) - decay).exp().unsqueeze(-1);
}
at::Tensor WholeDecay(const at::Tensor& decay) { return decay.narrow(-1, decay.size(-1) - 1, 1).exp().unsqueeze(-1); }

// What the steps of the scan leave to compute for all chunks at once.
struct StateGradients {
  at::Tensor after;   // of S'
  at::Tensor solved;  // of beta (V - exp(c) K S)
  at::Tensor read;    // of [K S, Q S]
};

// From the last step to the first: what a state is worth to the chunks after it. later: of the states after the runs,
// and then before them.
StateGradients ScanBack(const DeltaPrepared& own, const DeltaChunks& chunks, const at::Tensor& output,
                        const at::Tensor& later) {
  const at::Tensor by_attention = at::matmul(own.pairs.attention.transpose(-2, -1), output);
  const at::Tensor reach = UntilEnd(own.decay), whole = WholeDecay(own.decay), until = own.decay.exp().unsqueeze(-1);
  const at::Tensor from_output = output * until, to_key = own.beta.unsqueeze(-1) * until;
  const auto heads = own.value.sizes();
  StateGradients found;
  found.after = at::empty({heads[0], heads[1], heads[2], own.key.size(-1), heads[4]}, own.value.options());
  found.solved = at::empty_like(own.value);
  found.read = at::empty({heads[0], heads[1], heads[2], 2 * heads[3], heads[4]}, own.value.options());
  int64_t end = heads[0];
  for (auto active = chunks.active.rbegin(); active != chunks.active.rend(); ++active) {
    const int64_t begin = end - *active;
    const auto of = [&](const at::Tensor& t) { return t.narrow(0, begin, *active); };
    at::Tensor after = later.narrow(0, 0, *active);
    of(found.after).copy_(after);
    const at::Tensor written = of(by_attention) + at::matmul(of(own.key), after) * of(reach);
    const at::Tensor solved = at::matmul(of(own.pairs.inverse).transpose(-2, -1), written);
    of(found.solved).copy_(solved);
    const at::Tensor read = at::cat({-of(to_key) * solved, of(from_output)}, -2);
    of(found.read).copy_(read);
    after.mul_(of(whole)).add_(at::matmul(of(own.key_query).transpose(-2, -1), read));
    end = begin;
  }
  return found;
}

}  // namespace

at::Tensor IntoChunks(const at::Tensor& x, const DeltaChunks& chunks, const std::vector<int64_t>& places,
                      int64_t groups) {
  at::Tensor padded = at::zeros({x.size(0) + 1, x[0].numel()}, x.options().dtype(at::kFloat));
  padded.narrow(0, 0, x.size(0)).copy_(x.flatten(1));
  const at::Tensor placed = padded.index_select(0, PlacesOn(x.device(), places))
                                .view({chunks.chunks(), chunks.size, groups, x.size(1) / groups, -1})
                                .permute({0, 2, 3, 1, 4})
                                .contiguous();
  return x.dim() == 2 ? placed.squeeze(-1) : placed;
}

at::Tensor OutOfChunks(const at::Tensor& x, const DeltaChunks& chunks, const std::vector<int64_t>& places) {
  const at::Tensor placed = x.dim() == 4 ? x.unsqueeze(-1) : x;
  const int64_t heads = x.size(1) * x.size(2), dim = placed.size(-1);
  const at::Tensor lines = placed.permute({0, 3, 1, 2, 4}).reshape({-1, heads, dim});
  at::Tensor tokens = at::zeros({chunks.tokens + 1, heads, dim}, x.options());
  const at::Tensor where = PlacesOn(x.device(), places);
  if (chunks.prefixes) {
    tokens.index_add_(0, where, lines);
  } else {
    tokens.index_copy_(0, where, lines);
  }
  const at::Tensor real = tokens.narrow(0, 0, chunks.tokens);
  return x.dim() == 4 ? real.squeeze(-1) : real;
}

DeltaPrepared PrepareDelta(const DeltaInputs& inputs, const DeltaChunks& chunks) {
  const int64_t groups = inputs.key.size(1);
  DeltaPrepared made;
  std::tie(made.key, made.key_inverse) = UnitRows(IntoChunks(inputs.key, chunks, chunks.reads, groups));
  std::tie(made.query, made.query_inverse) = UnitRows(IntoChunks(inputs.query, chunks, chunks.reads, groups));
  made.value = IntoChunks(inputs.value, chunks, chunks.reads, groups);
  made.beta = IntoChunks(inputs.beta, chunks, chunks.reads, groups);
  made.decay = IntoChunks(inputs.log_decay, chunks, chunks.reads, groups).cumsum(-1);
  const at::Tensor scaled = made.query * QueryScale(made.query), keys = made.key.transpose(-2, -1);
  made.key_query = at::cat({made.key, scaled}, -2);
  made.key_products = at::matmul(made.key, keys);
  made.query_products = at::matmul(scaled, keys);
  made.pairs = PairsOf(made.pair_inputs());
  return made;
}

DeltaScan ScanDelta(const DeltaPrepared& own, const DeltaChunks& chunks, const at::Tensor& states, bool keep) {
  const auto heads = own.value.sizes();
  const at::Tensor until = own.decay.exp().unsqueeze(-1), whole = WholeDecay(own.decay);
  const at::Tensor reaching = own.key * UntilEnd(own.decay), beta = own.beta.unsqueeze(-1);
  DeltaScan made{.output = at::empty_like(own.value), .written = at::empty_like(own.value)};
  if (keep) {
    made.before = at::empty({heads[0], heads[1], heads[2], states.size(-2), heads[4]}, own.value.options());
    made.read = at::empty({heads[0], heads[1], heads[2], 2 * heads[3], heads[4]}, own.value.options());
  }
  int64_t begin = 0;
  for (const int64_t active : chunks.active) {
    const auto of = [&](const at::Tensor& t) { return t.narrow(0, begin, active); };
    at::Tensor state = states.narrow(0, 0, active);
    const at::Tensor read = at::matmul(of(own.key_query), state);
    if (keep) of(made.before).copy_(state);
    if (keep) of(made.read).copy_(read);
    const auto parts = read.chunk(2, -2);
    const at::Tensor written = at::matmul(of(own.pairs.inverse), of(beta) * (of(own.value) - of(until) * parts[0]));
    of(made.written).copy_(written);
    of(made.output).copy_(at::matmul(of(own.pairs.attention), written).add_(of(until) * parts[1]));
    state.mul_(of(whole)).add_(at::matmul(of(reaching).transpose(-2, -1), written));
    begin += active;
  }
  return made;
}

at::Tensor EmptyDeltaStates(const DeltaPrepared& own, const DeltaChunks& chunks) {
  const auto heads = own.value.sizes();
  return at::zeros({std::ssize(chunks.order), heads[1], heads[2], own.key.size(-1), heads[4]}, own.value.options());
}

// The rule is linear in the state: what becomes of the unit matrix beside an empty state, where no value comes.
at::Tensor TransitionsOf(const DeltaPrepared& own, const DeltaChunks& chunks) {
  const int64_t dim = own.key.size(-1);
  const at::Tensor until = own.decay.exp().unsqueeze(-1), whole = WholeDecay(own.decay), beta = own.beta.unsqueeze(-1);
  const at::Tensor reaching = own.key * UntilEnd(own.decay);
  const at::Tensor values = at::constant_pad_nd(own.value, {dim, 0});
  const at::Tensor states = at::constant_pad_nd(EmptyDeltaStates(own, chunks), {dim, 0});
  states.narrow(-1, 0, dim).copy_(at::eye(dim, own.value.options()).expand_as(states.narrow(-1, 0, dim)));
  int64_t begin = 0;
  for (const int64_t active : chunks.active) {
    const auto of = [&](const at::Tensor& t) { return t.narrow(0, begin, active); };
    at::Tensor state = states.narrow(0, 0, active);
    const at::Tensor read = at::matmul(of(own.key), state);
    const at::Tensor written = at::matmul(of(own.pairs.inverse), of(beta) * (of(values) - of(until) * read));
    state.mul_(of(whole)).add_(at::matmul(of(reaching).transpose(-2, -1), written));
    begin += active;
  }
  return states;
}

void BackwardDeltaStates(const DeltaPrepared& own, const DeltaChunks& chunks, const at::Tensor& output,
                         const at::Tensor& states) {
  ScanBack(own, chunks, output, states);
}

DeltaInputs BackwardDelta(const DeltaPrepared& own, const DeltaScan& scan, const DeltaChunks& chunks,
                          const at::Tensor& output, const at::Tensor& after) {
  const StateGradients states = ScanBack(own, chunks, output, after.defined() ? after : EmptyDeltaStates(own, chunks));
  const at::Tensor until = own.decay.exp().unsqueeze(-1), reach = UntilEnd(own.decay), beta = own.beta.unsqueeze(-1);
  const auto read = scan.read.chunk(2, -2);
  // Pairs of tokens: P, and the system whose inverse is T.
  const at::Tensor written = scan.written.transpose(-2, -1);
  const PairGradients by_pairs =
      PairsBackward(own.pair_inputs(), own.pairs, at::matmul(output, written), at::matmul(states.solved, written));
  const at::Tensor to_beta = (states.solved * (own.value - until * read[0])).sum(-1) + by_pairs.beta;
  at::Tensor to_decay = by_pairs.decay;
  // The state before and after.
  const at::Tensor products = (states.read * scan.read).sum(-1);
  to_decay.add_(products.narrow(-1, 0, chunks.size)).add_(products.narrow(-1, chunks.size, chunks.size));
  const at::Tensor reaching = at::matmul(scan.written, states.after.transpose(-2, -1)).mul_(reach);
  const at::Tensor reached = (reaching * own.key).sum(-1);
  to_decay.sub_(reached);
  to_decay.narrow(-1, chunks.size - 1, 1)
      .add_(reached.sum(-1, /*keepdim=*/true))
      .add_((states.after * scan.before).sum({-2, -1}).unsqueeze(-1) * WholeDecay(own.decay).squeeze(-1));
  const auto by_state = at::matmul(states.read, scan.before.transpose(-2, -1)).sum(2, /*keepdim=*/true).chunk(2, -2);
  const double scale = QueryScale(own.query);
  const at::Tensor of_attention = by_pairs.query_products.sum(2, /*keepdim=*/true);
  const at::Tensor of_system = by_pairs.key_products.sum(2, /*keepdim=*/true);
  const at::Tensor query = (at::matmul(of_attention, own.key) + by_state[1]) * scale;
  const at::Tensor key = at::matmul(of_attention.transpose(-2, -1), own.query * scale) +
                         at::matmul(of_system + of_system.transpose(-2, -1), own.key) + by_state[0] +
                         reaching.sum(2, /*keepdim=*/true);
  return {.query = OutOfChunks(UnitRowsBackward(query, own.query, own.query_inverse), chunks, chunks.reads),
          .key = OutOfChunks(UnitRowsBackward(key, own.key, own.key_inverse), chunks, chunks.reads),
          .value = OutOfChunks(states.solved * beta, chunks, chunks.reads),
          .log_decay = OutOfChunks(to_decay.flip({-1}).cumsum(-1).flip({-1}), chunks, chunks.reads),
          .beta = OutOfChunks(to_beta, chunks, chunks.reads)};
}

}  // namespace trireme
