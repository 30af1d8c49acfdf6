// The libtorch in use is the pinned version, and it computes.
#include "core/tensor/torch_runtime.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/variable.h>

namespace trireme {
namespace {

TEST(TorchRuntime, IsThePinnedVersion) { EXPECT_EQ(TorchHeaderVersion(), "2.7.1"); }

TEST(TorchRuntime, ThreadsAreSetForTheWholeProcess) {
  SetTorchThreads(1);
  EXPECT_EQ(TorchThreads(), 1);
}

TEST(TorchRuntime, NamesTheVectorInstructions) { EXPECT_FALSE(TorchCpuCapability().empty()); }

TEST(TorchRuntime, MultipliesAndDifferentiates) {
  at::Tensor weight = at::arange(6, at::kFloat).view({2, 3}).set_requires_grad(true);  // [out, in]
  at::Tensor input = at::ones({1, 3});                                                 // [rows, in]
  at::Tensor output = input.matmul(weight.t());                                        // [rows, out]
  EXPECT_TRUE(at::equal(output, at::tensor({3.0f, 12.0f}).view({1, 2})));
  output.sum().backward();
  EXPECT_TRUE(at::equal(weight.grad(), at::ones({2, 3})));
}

}  // namespace
}  // namespace trireme
