#include "ops/accumulate.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include "core/base/error.h"
#include "ops/ascendc/flat.h"
#include "ops/choose.h"
#include "ops/cpu/flat.h"
#include "ops/kernel_place.h"

namespace trireme {

void AddInto(const at::Tensor& sum, const at::Tensor& addend) {
  TRIREME_CHECK(sum.scalar_type() == at::kFloat && sum.is_contiguous());
  TRIREME_CHECK(sum.sizes() == addend.sizes());
  const std::string strided = addend.is_contiguous() ? "" : "the addend is strided";
  const bool narrow = addend.scalar_type() == at::kFloat || addend.scalar_type() == at::kBFloat16;
  const Against against{.loops = narrow ? strided : "loops add fp32 and bf16 only",
                        .kernel = WhyNoKernel(addend)};
  switch (Choose("accumulate", sum, against).version) {
    case Version::kLoops:
      break;
    case Version::kKernel:
      return ascendc::AddInto(PlaceOf(sum), ElementOf(addend), Data<float>(sum), addend.data_ptr(),
                              static_cast<uint64_t>(sum.numel()));
    default:
      sum.add_(addend);
      return;
  }
  constexpr int64_t kGrain = 32768;
  ByType(addend, [&](auto type) {
    at::parallel_for(0, sum.numel(), kGrain, [&](int64_t begin, int64_t end) {
      cpu::AddInto(Data<float>(sum), Data<decltype(type)>(addend), {begin, end});
    });
  });
}

}  // namespace trireme
