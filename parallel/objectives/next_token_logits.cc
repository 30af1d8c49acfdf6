#include "parallel/objectives/next_token_logits.h"

#include "core/base/error.h"
#include "ops/linear/infer_linear.h"
#include "parallel/objectives/vocabulary.h"
#include "parallel/tensor/collectives.h"

namespace trireme {

std::vector<at::Tensor> NextTokenLogits::Run(const HeadStates& head, PassContext& pass) const {
  TRIREME_CHECK(!pass.options.differentiate) << "logits for generation are not differentiated";
  const at::Tensor mine = InferLinear(head.hidden.at(0), head.weight);  // [wanted, vocabulary / tp]
  if (head.soft_cap > 0) SoftCapLogits(mine, head.soft_cap);
  const at::Tensor shards = AllGatherRows(mine, head.tensor).view({head.tensor.size(), -1, mine.size(1)});
  pass.output->logits = shards.transpose(0, 1).flatten(1).narrow(1, 0, head.vocabulary);
  return {};
}

}  // namespace trireme
