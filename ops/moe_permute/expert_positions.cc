#include "ops/moe_permute/expert_positions.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include "ops/cuda/launch.h"
#include "ops/element_types.h"

namespace trireme {

std::optional<ExpertPositions> PositionsOnDevice(const at::Tensor& chosen, int64_t experts) {
  const at::Tensor like = at::empty({0}, chosen.options().dtype(at::kFloat));  // kernels are there, or not
  if (!WhyNoCudaKernel(like).empty() || experts > cuda::kMostExperts) return std::nullopt;
  const at::Tensor choices = chosen.contiguous();
  const int64_t chunks = (choices.numel() + cuda::kPositionChunk - 1) / cuda::kPositionChunk;
  ExpertPositions result{at::empty_like(choices), at::empty({experts}, choices.options())};
  const at::Tensor work = at::empty({experts, chunks}, choices.options().dtype(at::kInt));
  CheckLaunch(CudaKernels().expert_positions({.chosen = Data<int64_t>(choices),
                                              .positions = Data<int64_t>(result.positions),
                                              .counts = Data<int64_t>(result.counts),
                                              .chunk_counts = Data<int32_t>(work),
                                              .size = choices.numel(),
                                              .experts = static_cast<int>(experts),
                                              .chunks = static_cast<int>(chunks)},
                                             CudaStream()),
              "expert_positions");
  return result;
}

}  // namespace trireme
