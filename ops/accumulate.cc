#include "ops/accumulate.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include "core/base/error.h"
#include "ops/choose.h"
#include "ops/cpu/flat.h"

namespace trireme {

void AddInto(const at::Tensor& sum, const at::Tensor& addend) {
  TRIREME_CHECK(sum.scalar_type() == at::kFloat && sum.is_contiguous());
  TRIREME_CHECK(sum.sizes() == addend.sizes());
  if (!FastOnCpu(sum) || !FastOnCpu(addend) || !addend.is_contiguous()) {
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
