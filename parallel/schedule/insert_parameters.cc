// Scans each rank's compute; a chunk is gathered one change of chunk early and freed when neither the current
// nor the next compute needs it.
#include "parallel/schedule/insert_parameters.h"

#include <utility>

#include "core/base/error.h"

namespace trireme {
namespace {

class RankPass {
 public:
  RankPass(const std::vector<Step>& steps, int chunks, int zero)
      : steps_(steps), zero_(zero), gathered_(chunks, false), weights_left_(chunks, 0), next_chunk_(steps.size()) {
    int current = kNone;
    int following = kNone;
    for (size_t i = steps.size(); i-- > 0;) {
      const Action& action = steps[i].front();
      if (!action.is_compute()) continue;
      if (action.makes_weight_gradient()) ++weights_left_[action.chunk];
      if (action.chunk != current) following = std::exchange(current, action.chunk);
      next_chunk_[i] = following;
    }
  }

  std::vector<Step> Run() {
    for (size_t i = 0; i < steps_.size(); ++i) {
      const Action& action = steps_[i].front();
      if (action.is_compute()) {
        PutReduction();
        if (zero_ == 3) Hold(action.chunk, next_chunk_[i]);
        if (action.makes_weight_gradient()) PlanReduction(action.chunk);
      }
      out_.push_back(steps_[i]);
    }
    PutReduction();
    if (zero_ == 3) Hold(kNone, kNone);
    return std::move(out_);
  }

 private:
  static constexpr int kNone = -1;

  // Frees first: at most two chunks are gathered at a time.
  void Hold(int current, int next) {
    for (int chunk = 0; chunk < static_cast<int>(gathered_.size()); ++chunk) {
      if (gathered_[chunk] && chunk != current && chunk != next) Put(ActionKind::kFreeParameters, chunk);
    }
    for (int chunk : {current, next}) {
      if (chunk != kNone && !gathered_[chunk]) Put(ActionKind::kGatherParameters, chunk);
    }
  }

  void Put(ActionKind kind, int chunk) {
    gathered_[chunk] = kind == ActionKind::kGatherParameters;
    out_.push_back({{.kind = kind, .chunk = chunk}});
  }

  // A reduction comes after the messages that follow its weight gradient: other stages wait for those.
  void PlanReduction(int chunk) {
    const bool last = --weights_left_[chunk] == 0;
    if (last || zero_ >= 2) to_reduce_ = chunk;
  }

  void PutReduction() {
    const int chunk = std::exchange(to_reduce_, kNone);
    if (chunk != kNone) out_.push_back({{.kind = ActionKind::kReduceGradients, .chunk = chunk}});
  }

  const std::vector<Step>& steps_;
  int zero_;
  int to_reduce_ = kNone;
  std::vector<bool> gathered_;     // [chunks]
  std::vector<int> weights_left_;  // [chunks]
  std::vector<int> next_chunk_;    // [steps] the next chunk that compute switches to
  std::vector<Step> out_;
};

}  // namespace

Schedule InsertParameterActions(Schedule schedule, int zero) {
  if (zero < 0 || zero > 3) throw InputError("zero = ", zero, "; wanted 0, 1, 2 or 3");
  TRIREME_CHECK(!schedule.zero) << "the table already has parameter actions, for zero " << *schedule.zero;
  for (std::vector<Step>& steps : schedule.ranks) {
    steps = RankPass(steps, schedule.placement.chunks, zero).Run();
  }
  schedule.zero = zero;
  return schedule;
}

}  // namespace trireme
