// On device cuda: every implementation that is made for a GPU against the operator's reference on the same
// GPU, values, gradients of inputs and of weights, in fp32 and bf16, on shapes with and without whole packs
// of 16 bytes.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <functional>

#include "core/tensor/tensor_devices.h"
#include "ops/attention/attention.h"
#include "ops/choose.h"
#include "ops/cross_entropy/cross_entropy.h"
#include "ops/dropout_add/dropout_add.h"
#include "ops/flat/adamw.h"
#include "ops/flat/gradient_norm.h"
#include "ops/linear/linear.h"
#include "ops/low_rank/low_rank.h"
#include "ops/rms_norm/rms_norm.h"
#include "ops/swiglu/swiglu.h"
#include "ops/switches.h"

namespace trireme {
namespace {

using Tensors = std::vector<at::Tensor>;

class CudaOps : public testing::TestWithParam<at::ScalarType> {
 protected:
  static void SetUpTestSuite() {
    static Device device(0);
    options_ = at::TensorOptions(at::kFloat).device(CudaEntry().open(device.index()).torch());
  }

  static at::Tensor Random(at::IntArrayRef shape) { return at::randn(shape, options_).to(GetParam()); }
  static at::Tensor Leaf(at::IntArrayRef shape) { return Random(shape).set_requires_grad(true); }
  static Weight TrainedWeight(at::IntArrayRef shape) {
    return {"weight", Random(shape), at::zeros(shape, options_)};
  }

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
      const double error =
          (found - right).norm().item<double>() / std::max(right.norm().item<double>(), 1e-30);
      EXPECT_LE(error, tolerance) << op << ", result " << i << " of " << right.sizes();
    }
  }

  static double Tolerance() { return GetParam() == at::kFloat ? 3e-6 : 8e-3; }

  static inline at::TensorOptions options_;
};

INSTANTIATE_TEST_SUITE_P(Types, CudaOps, testing::Values(at::kFloat, at::kBFloat16),
                         [](const auto& type) { return type.param == at::kFloat ? "fp32" : "bf16"; });

TEST_P(CudaOps, RmsNorm) {
  for (const int64_t columns : {8, 100, 127, 896, 3584, 8192}) {
    Compare("rms_norm", "cuda", Tolerance(), [&] {
      const at::Tensor x = Leaf({77, columns}), branch = Leaf({77, columns});
      const Weight weight = TrainedWeight({columns});
      const AddedNorm added = AddRmsNorm(x, branch, weight, 1e-6);
      Tensors all = Differentiate({added.sum, added.normalised}, {x, branch});
      for (const at::Tensor& one : Differentiate({RmsNorm(x, weight, 1e-6)}, {x})) all.push_back(one);
      all.push_back(weight.gradient);
      return all;
    });
  }
}

TEST_P(CudaOps, SwiGlu) {
  for (const int64_t ffn : {1, 12, 4864, 18944}) {
    Compare("swiglu", "cuda", Tolerance(), [&] {
      const at::Tensor x = Leaf({33, 2 * ffn});
      return Differentiate({SwiGlu(x)}, {x});
    });
  }
}

TEST_P(CudaOps, Heads) {
  const int64_t rows = 2, length = 37;
  for (const HeadShape& shape : {HeadShape{rows, length, 14, 2, 64}, HeadShape{rows, length, 28, 4, 128},
                                 HeadShape{rows, length, 80, 20, 128}, HeadShape{rows, length, 3, 3, 32}}) {
    for (const bool norms : {false, true}) {
      Compare("qkv_norm_rope", "cuda", Tolerance(), [&] {
        const at::Tensor qkv = Leaf({shape.tokens(), shape.width()});
        const Weight query_norm = TrainedWeight({shape.head_dim}), key_norm = TrainedWeight({shape.head_dim});
        std::vector<double> frequencies;
        for (int64_t i = 0; i < shape.head_dim / 2; ++i)
          frequencies.push_back(1.0 / static_cast<double>(1 + i));
        const at::Tensor positions = at::arange(length, options_.dtype(at::kLong)).repeat({rows});
        const Heads heads = SplitHeads(qkv, shape, norms ? &query_norm : nullptr, norms ? &key_norm : nullptr,
                                       MakeRotaryTable(positions, frequencies));
        Tensors all = Differentiate({heads.query, heads.key, heads.value}, {qkv});
        if (norms) all.insert(all.end(), {query_norm.gradient, key_norm.gradient});
        return all;
      });
    }
  }
}

TEST_P(CudaOps, Attention) {
  const bool bf16 = GetParam() == at::kBFloat16;
  struct Shape {
    int64_t rows, length, kv_heads, group, dim;
  };
  for (const Shape& s : {Shape{2, 256, 2, 7, 64}, Shape{1, 300, 4, 7, 128}, Shape{3, 64, 2, 1, 128}}) {
    for (const bool recompute : {false, true}) {
      Compare("attention", bf16 ? "cudnn" : "aten", Tolerance(), [&] {
        const at::Tensor query = Leaf({s.rows, s.kv_heads, s.length, s.group, s.dim});
        const at::Tensor key = Leaf({s.rows, s.kv_heads, s.length, s.dim}), value = Leaf(key.sizes());
        const Heads heads{query, key, value};
        if (!recompute) return Differentiate({CausalAttention(heads)}, {query, key, value});
        const Attended attended = CausalAttentionAgain(heads);
        Tensors all = Differentiate({attended.output}, {query, key, value});
        return all;
      });
    }
  }
}

TEST_P(CudaOps, WeightGradient) {
  const bool bf16 = GetParam() == at::kBFloat16;
  Compare("weight_gradient", bf16 ? "cublas" : "aten", Tolerance(), [&] {
    const Weight weight = TrainedWeight({96, 160});
    weight.gradient.fill_(7);
    weight.stale = true;  // what it has counts as zero
    for (int i = 0; i < 2; ++i) AddWeightGradient(weight, Random({64, 96}), Random({64, 160}));
    return Tensors{weight.gradient};
  });
}

TEST_P(CudaOps, CrossEntropy) {
  for (const auto& [columns, stride] :
       {std::pair<int64_t, int64_t>{1000, 1000}, {1003, 1003}, {151643, 152064}}) {
    Compare("cross_entropy", "cuda", Tolerance(), [&, columns = columns, stride = stride] {
      const at::Tensor logits = Random({19, stride}) * 4;
      const at::Tensor labels = at::randint(columns + 50, {19}, options_.dtype(at::kLong));
      const LogitColumns which{.first = 40, .count = columns};
      const LogitStatistics found = StatisticsOfLogits(logits, labels, which);
      const at::Tensor log_sum_exp = found.largest + found.sum.log();
      LogitsToGradient(logits, labels, which, log_sum_exp, 0.25);
      return Tensors{log_sum_exp, found.picked, logits};
    });
  }
}

TEST_P(CudaOps, AdamW) {
  for (const at::ScalarType masters : {at::kFloat, GetParam()}) {
    for (const at::ScalarType moments : {at::kFloat, at::kBFloat16}) {
      for (const int64_t size : {5, 4096, 100003}) {
        Compare("adamw", "cuda", moments == at::kFloat && masters == at::kFloat ? 1e-6 : 4e-3, [&] {
          const at::Tensor values = Random({size});
          const bool separate = masters != GetParam();
          const at::Tensor zeros = at::zeros({size}, options_.dtype(moments));
          const AdamWTensors t{separate ? values.to(at::kFloat) : values, zeros, zeros.clone(),
                               at::randn({size}, options_), separate ? values : at::Tensor()};
          for (int64_t step = 1; step <= 3; ++step) AdamW(t, {.step = step, .gradient_scale = 0.5});
          return Tensors{t.master, t.exp_avg, t.exp_avg_sq, values};
        });
      }
    }
  }
}

TEST_P(CudaOps, GradientNorm) {
  if (GetParam() != at::kFloat) return;  // gradients are fp32
  Compare("gradient_norm", "cuda", 1e-6, [&] {
    return Tensors{at::tensor({SumOfSquares({Random({3}), Random({1000003}), Random({0})})}, at::kDouble)};
  });
}

TEST_P(CudaOps, Dropout) {
  Compare("dropout_add", "cuda", Tolerance(), [&] {
    const auto dropout = std::make_shared<const Dropout>(Dropout{.rate = 0.3,
                                                                 .random = RandomStream(1, "test"),
                                                                 .rows = at::arange(40, at::kLong),
                                                                 .first_column = 5});
    const at::Tensor x = Leaf({40, 333}), residual = Leaf({40, 333});
    return Differentiate({DropoutAdd(residual, x, dropout), WithDropout(x, dropout)}, {x, residual});
  });
}

}  // namespace
}  // namespace trireme
