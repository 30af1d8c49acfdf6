// BestEvaluation: which of a run's evaluations had the lowest loss, or the lowest negative metric, and whether the run
// ends for lack of a lower one. A checkpoint carries it, so that a resumed run counts on. Evaluates and saves nothing
// itself. No torch.
#pragma once

#include <cstdint>

#include "checkpoint/manifest.pb.h"
#include "core/config.pb.h"

namespace trireme {

// Refuses eval.early_stopping and save.final_from: best in a run that never evaluates, and a run of no epochs.
void CheckBestEvaluation(const Config& config);

class BestEvaluation {
 public:
  // before: of the checkpoint that the run resumes from; empty: there is none.
  BestEvaluation(const EvalConfig& eval, const checkpoint::Progress& before);

  // Whether this loss is the lowest so far.
  bool Take(int64_t step, double loss);
  // The last eval.early_stopping evaluations all had no lower loss than those before.
  bool StopsRun() const;
  int64_t step() const { return best_.step(); }  // of the lowest; 0: there was no evaluation
  void AddTo(checkpoint::Progress& progress) const;

 private:
  const int32_t patience_;
  const double threshold_;
  checkpoint::BestEvaluation best_;
};

}  // namespace trireme
