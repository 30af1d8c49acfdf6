// CudaOps: an operator on a GPU with the implementation that is made for it and with its reference, on the same GPU,
// with the same random numbers. Names no operator.
#pragma once

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/cuda/cuda.h"
#include "core/tensor/tensor_devices.h"
#include "ops/choose.h"
#include "ops/linear/linear.h"
#include "ops/switches.h"

namespace trireme {

using Tensors = std::vector<at::Tensor>;

class CudaOps : public testing::TestWithParam<at::ScalarType> {
 protected:
  static void SetUpTestSuite() {
    static Device device(0);
    options_ = at::TensorOptions(at::kFloat).device(CudaEntry().open(device.index()).torch());
  }

  static at::Tensor Random(at::IntArrayRef shape) { return at::randn(shape, options_).to(GetParam()); }
  static at::Tensor Leaf(at::IntArrayRef shape) { return Random(shape).set_requires_grad(true); }
  static std::shared_ptr<PackedWeight> RandomFp8(const PackedParts& parts, int64_t out, int64_t in) {
    auto packed = std::make_shared<PackedWeight>(parts, Shape{out, in}, GetParam());
    packed->bytes = at::randint(0x70, {parts.bytes}, options_.dtype(at::kByte));
    packed->bytes.narrow(0, out * in, 4 * out).view(at::kFloat).copy_(at::exp2(at::randint(-9, -5, {out}, options_)));
    return packed;
  }
  static Weight TrainedWeight(at::IntArrayRef shape) { return {"weight", Random(shape), at::zeros(shape, options_)}; }

  // The outputs, then the gradients of the inputs.
  static Tensors Differentiate(const Tensors& outputs, const Tensors& inputs) {
    Tensors seeds, all = outputs;
    for (const at::Tensor& output : outputs)
      seeds.push_back(at::randn(output.sizes(), options_).to(output.scalar_type()));
    for (const at::Tensor& gradient : torch::autograd::grad(outputs, inputs, seeds)) all.push_back(gradient);
    return all;
  }

  // `run` twice with the same random numbers, the second time with the operator turned off.
  static void Compare(const char* op, const std::string& wanted, double tolerance,
                      const std::function<Tensors()>& run) {
    at::manual_seed(1);
    std::string chosen;
    Tensors fast;
    {
      const ChoiceRecord record;
      fast = run();
      chosen = record.ChosenFor(op);
    }
    EXPECT_EQ(chosen, wanted) << op;
    TurnOperatorsOff({op});
    at::manual_seed(1);
    const Tensors plain = run();
    TurnOperatorsOff({});
    ASSERT_EQ(fast.size(), plain.size());
    for (size_t i = 0; i < fast.size(); ++i) {
      ASSERT_EQ(fast[i].sizes(), plain[i].sizes()) << op << ", result " << i;
      const at::Tensor found = fast[i].to(at::kDouble), right = plain[i].to(at::kDouble);
      const double error = (found - right).norm().item<double>() / std::max(right.norm().item<double>(), 1e-30);
      EXPECT_LE(error, tolerance) << op << ", result " << i << " of " << right.sizes();
    }
  }

  static double Tolerance() { return GetParam() == at::kFloat ? 3e-6 : 8e-3; }

  static inline at::TensorOptions options_;
};

}  // namespace trireme
