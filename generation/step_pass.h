// StepPass: a step of the scheduler as one pass through the layers: the new tokens of all rows side by side,
// their positions, the images that some of them stand for, and the rows' blocks.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <vector>

#include "generation/adapter_set.h"
#include "generation/prompt_images.h"
#include "generation/scheduler.h"
#include "ops/attention/paged_attention.h"
#include "parallel/pass/pass_input.h"

namespace trireme {

struct StepImages {
  std::function<const PlacedImages*(int64_t row)> of = {};  // the scheduler's row; nullptr: it has none
  int64_t elements = 0;                                     // of a patch
  bool patches = true;                                      // the rank has the tower; otherwise only positions matter
};

struct StepPass {
  // In host memory. Padded to a multiple of `multiple` tokens; without a row there is nothing but padding.
  StepPass(const std::vector<RowStep>& step, const Scheduler& scheduler, int64_t multiple, const StepImages& images);
  void MoveTo(const at::Device& device);

  PassInput input;
  // Row by row: the tokens that predict one of a prompt that is scored, then the last one of a row that samples; the
  // first token if there are none.
  at::Tensor wanted;
  PagedRows rows;
  std::unique_ptr<const PassAdapters> adapters;  // of the rows; nullptr: none uses any
};

}  // namespace trireme
