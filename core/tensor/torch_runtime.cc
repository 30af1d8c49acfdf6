#include "core/tensor/torch_runtime.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <torch/version.h>

namespace trireme {

std::string TorchHeaderVersion() { return TORCH_VERSION; }

int TorchThreads() { return at::get_num_threads(); }

void SetTorchThreads(int threads) { at::set_num_threads(threads); }

void SetTorchDeterministic(bool on) { at::globalContext().setDeterministicAlgorithms(on, /*warn_only=*/true); }

void SetExactSums() {
  at::Context& context = at::globalContext();
  context.setAllowTF32CuBLAS(false);
  context.setAllowTF32CuDNN(false);
  context.setAllowFP16ReductionCuBLAS(false);
  context.setAllowBF16ReductionCuBLAS(false);
}

std::string TorchCpuCapability() { return at::get_cpu_capability(); }

}  // namespace trireme
