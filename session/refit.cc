#include "session/refit.h"

#include <algorithm>

#include "core/base/error.h"

namespace trireme {
namespace {

LaidOutModel LaidOut(const Session& session) {
  return {session.graph(), session.plan(), SplitOf(session.config().parallel())};
}

}  // namespace

Refit::Locals Refit::LocalsOf(Session& session) {
  Locals locals;
  for (Bucket* bucket : session.model().buckets()) {
    for (Weights::Entry* entry : bucket->entries()) {
      locals.emplace(entry->parameter.declaration.name, Local{bucket, entry});
    }
  }
  return locals;
}

Refit::Refit(Session& from, Session& to)
    : from_(from),
      to_(to),
      plan_(PlanRefit(LaidOut(from), LaidOut(to), DTypeOf(from.config().model()))),
      sources_(LocalsOf(from)),
      targets_(LocalsOf(to)) {}

at::Tensor Refit::View(const Locals& locals, const RefitMove& move) const {
  const std::string& name = plan_.parameters[move.parameter].name;
  const auto found = locals.find(name);
  const int rank = from_.job().rank();
  TRIREME_CHECK(found != locals.end()) << name << " is not on rank " << rank;
  for (const LocalBox& local : found->second.entry->placement.LocalBoxes(rank)) {
    if (Intersect(local.global, move.box) != move.box) continue;
    at::Tensor view = found->second.entry->weight.value;
    for (size_t dim = 0; dim < move.box.offset.size(); ++dim) {
      const int64_t begin = local.local_offset[dim] + move.box.offset[dim] - local.global.offset[dim];
      view = view.narrow(static_cast<int64_t>(dim), begin, move.box.extent[dim]);
    }
    return view;
  }
  TRIREME_CHECK(false) << name << ": rank " << rank << " does not hold " << ToText(move.box);
  return {};
}

RankCargo Refit::Load(size_t begin, size_t end) const {
  const int rank = from_.job().rank();
  RankCargo cargo;
  for (size_t i = begin; i < end; ++i) {
    const RefitMove& move = plan_.moves[i];
    if (move.destination == rank && move.source == rank) {
      View(targets_, move).copy_(View(sources_, move));
    } else if (move.source == rank) {
      cargo.sent[move.destination].push_back(View(sources_, move));
    } else if (move.destination == rank) {
      cargo.received[move.source].push_back(View(targets_, move));
    }
  }
  return cargo;
}

void Refit::MoveLayer(size_t begin, size_t end) {
  std::vector<Bucket*> held;  // with full values
  for (size_t i = begin; i < end; ++i) {
    const auto local = sources_.find(plan_.parameters[plan_.moves[i].parameter].name);
    if (local == sources_.end() || std::ranges::find(held, local->second.bucket) != held.end()) continue;
    held.push_back(local->second.bucket);
    held.back()->AwaitValues();
  }
  Exchange(Load(begin, end), from_.world(), from_.tensors().torch());
  for (Bucket* bucket : held) bucket->FreeValues();
}

void Refit::Run() {
  size_t begin = 0;
  while (begin < plan_.moves.size()) {
    size_t end = begin;
    const size_t layer = plan_.parameters[plan_.moves[begin].parameter].layer;
    while (end < plan_.moves.size() && plan_.parameters[plan_.moves[end].parameter].layer == layer) ++end;
    MoveLayer(begin, end);
    begin = end;
  }
}

}  // namespace trireme
