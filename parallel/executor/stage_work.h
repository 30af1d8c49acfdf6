// StageWork: what an executor asks of one stage of the pipeline. The table says when, the stage knows how;
// messages are neither's business. A real stage runs layers (stage.h), a test's may only sleep.
#pragma once

#include <ATen/core/Tensor.h>

namespace trireme {

struct BackwardOptions {
  bool put_off_weights = false;  // weight gradients wait for BackwardWeight
  bool reduce = false;  // the table reduces the stage's gradients next: each may go as soon as it is done
};

class StageWork {
 public:
  virtual ~StageWork() = default;

  // x: what the stage before made, undefined on the first stage. Returns what the next one takes, undefined
  // on the last, which keeps its loss.
  virtual at::Tensor Forward(int micro_batch, const at::Tensor& x) = 0;
  // gradient: of what Forward returned, undefined on the last stage. Returns the gradient of x, undefined on
  // the first.
  virtual at::Tensor Backward(int micro_batch, const at::Tensor& gradient,
                              const BackwardOptions& options) = 0;
  // What Backward put off.
  virtual void BackwardWeight(int micro_batch, bool reduce) = 0;

  virtual void GatherParameters() = 0;
  virtual void FreeParameters() = 0;
  virtual void ReduceGradients() = 0;

  // Memory for what comes in from another rank: the stage's x, or the gradient of its output.
  virtual at::Tensor EmptyInput(int micro_batch) = 0;
  virtual at::Tensor EmptyGradient(int micro_batch) = 0;
};

}  // namespace trireme
