#include "parallel/layers/delta_attention.h"

#include <ATen/ATen.h>

#include "ops/gated_delta/causal_conv.h"
#include "ops/rms_norm/rms_norm.h"
#include "parallel/context/passed_states.h"
#include "parallel/context/whole_sequences.h"
#include "parallel/layers/tracked_weight.h"

namespace trireme {
namespace {

// A context rank's part of the groups is whole if they divide; otherwise groups are cut as far as they can be.
int64_t CopiesFor(int64_t groups, int64_t values, int64_t ranks) {
  for (int64_t copies = 1; copies < values; ++copies) {
    if (values % copies == 0 && groups * copies % ranks == 0) return copies;
  }
  return groups % ranks == 0 ? 1 : values;
}

std::vector<DeltaRun> RunsOf(const ContextPlan& plan) {
  std::vector<DeltaRun> runs;
  int64_t first = 0;
  for (const std::vector<Document>& row : plan.documents()) {
    for (const Document& document : row) {
      runs.push_back({.begin = first + document.begin,
                      .end = first + document.end,
                      .prefix_begin = first + document.prefix.begin,
                      .prefix_end = first + document.prefix.end});
    }
    first += plan.length();
  }
  return runs;
}

// Where a step's rows stand when each one's last inputs of the convolution come before its new tokens. recent: [rows ·
// reach], then the tokens.
struct ExtendedRows {
  ExtendedRows(const PagedRows& rows, int64_t reach) {
    int64_t token = 0, end = 0;
    const int64_t recent = std::ssize(rows.rows) * reach;
    for (size_t i = 0; i < rows.rows.size(); ++i) {
      const int64_t fresh = rows.rows[i].fresh;
      for (int64_t j = 0; j < reach; ++j) sources.push_back(static_cast<int64_t>(i) * reach + j);
      for (int64_t j = 0; j < fresh; ++j) sources.push_back(recent + token + j);
      for (int64_t j = 0; j < fresh; ++j) results.push_back(end + reach + j);
      for (int64_t j = 0; j < reach; ++j) kept.push_back(end + fresh + j);
      extended.push_back({end, end + reach + fresh});
      runs.push_back({token, token + fresh});
      token += fresh;
      end += reach + fresh;
    }
  }
  std::vector<int64_t> sources, results, kept;
  std::vector<DeltaRun> extended, runs;
};

at::Tensor IndexOn(const at::Tensor& like, const std::vector<int64_t>& indices) {
  return at::tensor(indices, at::kLong).to(like.device());
}

}  // namespace

DeltaAttention::DeltaAttention(const AttentionSpec& spec, const Projection::Place& place, const LayerParallel& parallel)
    : layer_(place.layer.name),
      spec_(*spec.delta),
      norm_eps_(spec.norm_eps),
      context_(parallel.context),
      groups_(spec_.key_heads / parallel.tensor.size()),
      values_(spec_.value_heads / spec_.key_heads),
      deal_(DealTo(context_.group)),
      qkvz_(place, "delta.qkvz"),
      ba_(place, "delta.ba"),
      qkv_(place, "delta.qkv", {"delta.q", "delta.k", "delta.v"}),
      z_(place, "delta.z"),
      b_(place, "delta.b"),
      a_(place, "delta.a"),
      conv_(place.weights.Find(layer_ + ".delta.conv.weight")),
      log_rate_(place.weights.Find(layer_ + ".delta.decay.log_rate")),
      time_bias_(place.weights.Find(layer_ + ".delta.decay.time_bias")),
      norm_(place.weights.Find(layer_ + ".delta.norm.weight")),
      output_(place, "delta.output") {}

DeltaAttention::Deal DeltaAttention::DealTo(const Communicator& group) const {
  const int64_t copies = CopiesFor(groups_, values_, group.size());
  return {.copies = copies,
          .padding = PaddingTo(groups_ * copies, group.size()),
          .ranks = group.size(),
          .rank = group.rank()};
}

at::Tensor DeltaAttention::ByGroup(const at::Tensor& channels) const {
  const int64_t keys = groups_ * spec_.key_dim, values = groups_ * values_ * spec_.value_dim;
  const auto parts = channels.split_with_sizes({keys, keys, values}, 1);
  const auto grouped = [&](const at::Tensor& part) { return part.reshape({part.size(0), groups_, -1}); };
  return at::cat({grouped(parts[0]), grouped(parts[1]), grouped(parts[2])}, -1);
}

DeltaAttention::Projected DeltaAttention::Project(const LinearInput& x, PassContext& pass) const {
  if (!spec_.fused) {
    const at::Tensor mixed = ByGroup(qkv_.Forward(x, pass));
    const auto grouped = [&](const Projection& p) { return p.Forward(x, pass).view({-1, groups_, values_}); };
    return {.mixed = at::cat({mixed, grouped(b_), grouped(a_)}, -1), .gate = z_.Forward(x, pass)};
  }
  const int64_t gate = values_ * spec_.value_dim, channels = 2 * spec_.key_dim + gate;
  const auto parts = qkvz_.Forward(x, pass).view({-1, groups_, channels + gate}).split_with_sizes({channels, gate}, -1);
  const at::Tensor rates = ba_.Forward(x, pass).view({-1, groups_, 2 * values_});
  return {.mixed = at::cat({parts[0], rates}, -1), .gate = parts[1].flatten(1)};
}

at::Tensor DeltaAttention::Spread(const at::Tensor& x, bool keys, const std::vector<int64_t>& widths,
                                  const Deal& deal) const {
  if (deal.copies == 1 && deal.padding == 0) return x;
  std::vector<at::Tensor> parts;
  int64_t begin = keys ? 2 * spec_.key_dim : 0;
  if (keys) parts.push_back(x.narrow(-1, 0, begin).repeat_interleave(deal.copies, 1));
  for (const int64_t width : widths) {
    parts.push_back(x.narrow(-1, begin, values_ * width).reshape({x.size(0), groups_ * deal.copies, -1}));
    begin += values_ * width;
  }
  return at::constant_pad_nd(at::cat(parts, -1), {0, 0, 0, deal.padding});
}

DeltaAttention::Groups DeltaAttention::MyGroups(const at::Tensor& mixed, const Deal& deal) const {
  const int64_t mine = (groups_ * deal.copies + deal.padding) / deal.ranks, first = deal.rank * mine;
  const auto own = [&](const at::Tensor& spread) { return spread.narrow(1, first, mine).flatten(1); };
  const auto rates = [&](const Weight& weight) {
    return own(Spread(TrackedWeight(weight, mixed).view({1, groups_, values_}), /*keys=*/false, {1}, deal)).squeeze(0);
  };
  const at::Tensor taps = ByGroup(TrackedWeight(conv_, mixed).squeeze(1).t());  // [taps, groups, channels]
  return {.mixed = Spread(mixed, /*keys=*/true, {spec_.value_dim, 1, 1}, deal),
          .conv = own(Spread(taps, /*keys=*/true, {spec_.value_dim}, deal)).t().contiguous(),
          .log_rate = rates(log_rate_),
          .time_bias = rates(time_bias_),
          .values = values_ / deal.copies};
}

DeltaInputs DeltaAttention::InputsOf(const at::Tensor& convolved, const Groups& groups) const {
  const int64_t tokens = convolved.size(0), mine = groups.mixed.size(1), values = groups.values;
  const int64_t key = spec_.key_dim, value = values * spec_.value_dim;
  const auto parts = convolved.view({tokens, mine, -1}).split_with_sizes({key, key, value}, -1);
  const auto rates = groups.mixed.narrow(-1, 2 * key + value, 2 * values).split(values, -1);
  const at::Tensor steps = at::softplus(rates[1].reshape({-1, mine * values}).to(at::kFloat) + groups.time_bias);
  return {.query = parts[0],
          .key = parts[1],
          .value = parts[2].reshape({tokens, mine * values, spec_.value_dim}),
          .log_decay = -groups.log_rate.exp() * steps,
          .beta = rates[0].reshape({-1, mine * values}).sigmoid().to(at::kFloat)};
}

at::Tensor DeltaAttention::Train(const at::Tensor& mixed, PassContext& pass) const {
  const std::shared_ptr<const ContextPlan>& plan = pass.input.context;
  if (PassesStates(mixed, *plan)) return TrainByPassing(mixed, *plan);
  Groups groups = MyGroups(mixed, deal_);
  groups.mixed = WholeSequences(groups.mixed, plan, context_);
  const int64_t tokens = groups.mixed.size(0), channels = groups.conv.size(0) / groups.mixed.size(1);
  const std::vector<DeltaRun> runs = RunsOf(*plan);
  const at::Tensor convolved =
      CausalConv(groups.mixed.narrow(-1, 0, channels).flatten(1), groups.conv,
                 std::make_shared<const ConvPlaces>(PlacesInRuns(runs, tokens, spec_.convolution)));
  const at::Tensor output =
      GatedDelta(InputsOf(convolved, groups), std::make_shared<const DeltaChunks>(CutIntoChunks(runs, tokens)));
  const at::Tensor by_group = output.reshape({tokens, groups.mixed.size(1), -1});
  return LocalSequences(by_group, plan, context_).narrow(1, 0, groups_ * deal_.copies).flatten(1);
}

bool DeltaAttention::PassesStates(const at::Tensor& mixed, const ContextPlan& plan) const {
  return context_.group.size() > 1 && context_.ulysses == 1 && (mixed.is_cpu() || mixed.is_cuda()) &&
         !HasPrefixes(plan);
}

at::Tensor DeltaAttention::TrainByPassing(const at::Tensor& mixed, const ContextPlan& plan) const {
  const auto segments = std::make_shared<const SegmentPlan>(
      SegmentsOf(plan, context_.group.size(), context_.group.rank(), spec_.convolution - 1));
  const Groups groups = MyGroups(mixed, {});
  const int64_t tokens = mixed.size(0), channels = groups.conv.size(0) / groups_;
  const at::Tensor fresh = groups.mixed.narrow(-1, 0, channels).flatten(1);
  const at::Tensor border = BorderTokens(fresh, segments, context_);
  std::vector<DeltaRun> whole;
  for (const TokenRange& range : segments->whole) whole.push_back({range.begin, range.end});
  std::vector<DeltaRun> runs = whole;
  for (size_t slot = 0; slot < segments->mine.size(); ++slot) {
    const TokenRange& before = segments->borders[slot];
    runs.push_back({.begin = segments->mine[slot].begin,
                    .end = segments->mine[slot].end,
                    .prefix_begin = tokens + before.begin,
                    .prefix_end = tokens + before.end});
  }
  const auto places =
      std::make_shared<const ConvPlaces>(PlacesInRuns(runs, tokens + border.size(0), spec_.convolution));
  const at::Tensor convolved = CausalConv(at::cat({fresh, border}), groups.conv, places).narrow(0, 0, tokens);
  const DeltaInputs inputs = InputsOf(convolved, groups);
  const at::Tensor across = GatedDeltaAcross(inputs, segments, context_);
  if (whole.empty()) return across.flatten(1);
  return (across + GatedDelta(inputs, std::make_shared<const DeltaChunks>(CutIntoChunks(whole, tokens)))).flatten(1);
}

at::Tensor DeltaAttention::Generate(const at::Tensor& mixed, KeyValueCache& cache) const {
  const PagedRows& rows = cache.rows();
  const int64_t reach = spec_.convolution - 1, heads = groups_ * values_;
  const at::Tensor output = at::zeros({mixed.size(0), heads * spec_.value_dim}, mixed.options());
  if (rows.rows.empty()) return output;
  Groups groups = MyGroups(mixed, {});
  const int64_t channels = groups.conv.size(0);
  const at::Tensor fresh = groups.mixed.narrow(-1, 0, channels / groups_).flatten(1);
  DeltaStates& known = cache.deltas(layer_);
  DeltaStates::Rows states =
      known.Take(rows, {.recent = at::zeros({1, reach, channels}, mixed.options()),
                        .states = at::zeros({1, heads, spec_.key_dim, spec_.value_dim}, groups.conv.options())});
  const ExtendedRows places(rows, reach);
  const at::Tensor extended =
      at::cat({states.recent.flatten(0, 1), fresh}).index_select(0, IndexOn(mixed, places.sources));
  const auto conv_places =
      std::make_shared<const ConvPlaces>(PlacesInRuns(places.extended, extended.size(0), spec_.convolution));
  const at::Tensor convolved =
      CausalConv(extended, groups.conv, conv_places).index_select(0, IndexOn(mixed, places.results));
  const int64_t tokens = convolved.size(0);
  groups.mixed = groups.mixed.narrow(0, 0, tokens);
  const at::Tensor made =
      GatedDeltaOnward(InputsOf(convolved, groups), CutIntoChunks(places.runs, tokens), states.states);
  states.recent = extended.index_select(0, IndexOn(mixed, places.kept)).view({-1, reach, channels});
  known.Keep(rows, states);
  output.narrow(0, 0, tokens).copy_(made.flatten(1));
  return output;
}

at::Tensor DeltaAttention::Forward(const LinearInput& x, PassContext& pass) const {
  const auto [mixed, gate] = Project(x, pass);
  const at::Tensor mean = pass.options.cache != nullptr ? Generate(mixed, *pass.options.cache) : Train(mixed, pass);
  const at::Tensor normalised = RmsNorm(mean.reshape({-1, spec_.value_dim}), norm_, norm_eps_).view_as(mean);
  const at::Tensor gated = normalised.to(at::kFloat) * at::silu(gate.to(at::kFloat));
  return output_.Forward(gated.to(mean.scalar_type()), pass);
}

}  // namespace trireme
