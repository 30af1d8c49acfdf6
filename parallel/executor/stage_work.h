// StageWork: what an executor asks of one stage of the pipeline. The table decides when, the stage knows how;
// messages are not its concern. A real stage runs layers (stage.h); a test's may only sleep.
#pragma once

#include <ATen/core/Tensor.h>

namespace trireme {

struct BackwardOptions {
  bool put_off_weights = false;  // weight gradients are deferred to BackwardWeight
  bool reduce = false;           // the table reduces the stage's gradients next: each may start once complete
};

class StageWork {
 public:
  virtual ~StageWork() = default;

  // x: the previous stage's output, undefined on the first stage. Returns the next stage's input, undefined
  // on the last, which keeps its loss.
  virtual at::Tensor Forward(int micro_batch, const at::Tensor& x) = 0;
  // gradient: of what Forward returned, undefined on the last stage. Returns the gradient of x, undefined on
  // the first.
  virtual at::Tensor Backward(int micro_batch, const at::Tensor& gradient, const BackwardOptions& options) = 0;
  // Computes what Backward deferred.
  virtual void BackwardWeight(int micro_batch, bool reduce) = 0;

  virtual void GatherParameters() = 0;
  virtual void FreeParameters() = 0;
  virtual void ReduceGradients() = 0;

  // A receive buffer: for the stage's x, or for the gradient of its output.
  virtual at::Tensor EmptyInput(int micro_batch) = 0;
  virtual at::Tensor EmptyGradient(int micro_batch) = 0;
};

}  // namespace trireme
