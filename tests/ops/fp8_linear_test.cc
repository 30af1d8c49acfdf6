// fp8_linear: products of e4m3 codes against the same written out, and rows that ranks split against whole ones.
#include "ops/fp8_linear/fp8_linear.h"

#include <ATen/ATen.h>

#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "core/packing/e4m3.h"
#include "ops/dequantise/dequantise.h"
#include "ops/linear/infer_linear.h"
#include "ops/linear/linear.h"
#include "tests/ops/compare.h"

namespace trireme {
namespace {

// Rows of different sizes, whose elements span more than e4m3 does.
at::Tensor WideRandom(int64_t rows, int64_t columns, at::ScalarType type) {
  const at::Tensor sizes = at::exp2(at::randint(-12, 12, {rows, 1}).to(at::kFloat));
  const at::Tensor spans = at::exp2(at::randint(-18, 1, {rows, columns}).to(at::kFloat));
  return (at::randn({rows, columns}) * sizes * spans).to(type);
}

// Element by element: what a row of e4m3 under its scale stands for.
at::Tensor RoundedByHand(const at::Tensor& x) {
  const at::Tensor rounded = x.to(at::kFloat).clone();
  for (int64_t row = 0; row < x.size(0); ++row) {
    float* values = rounded[row].data_ptr<float>();
    const float scale = Fp8RowScale(rounded[row].abs().max().item<float>());
    for (int64_t i = 0; i < x.size(1); ++i) values[i] = FromFp8(Fp8Of(values[i] / scale)) * scale;
  }
  return rounded;
}

// Rows [first, first + rows), columns [column, column + columns) of a file's matrix as a rank's weight.
Weight Fp8Weight(const at::Tensor& matrix, int64_t first, int64_t rows, int64_t column, int64_t columns) {
  const PackedPart part{.name = "w",
                        .matrix_rows = matrix.size(0),
                        .matrix_columns = matrix.size(1),
                        .first_row = first,
                        .first_column = column,
                        .rows = rows,
                        .columns = columns,
                        .local_stride = columns};
  auto packed =
      std::make_shared<PackedWeight>(PlaceParts(kFp8Storage, {part}), Shape{rows, columns}, matrix.scalar_type());
  packed->bytes = at::zeros({packed->parts().bytes}, at::kByte);
  const at::Tensor wide = matrix.to(at::kFloat).contiguous();
  uint8_t* bytes = packed->bytes.data_ptr<uint8_t>();
  float* scales = reinterpret_cast<float*>(bytes + packed->parts().parts.front().scales);
  for (int64_t r = 0; r < rows; ++r) {
    scales[r] = Fp8RowScale(wide[first + r].abs().max().item<float>());
    for (int64_t c = 0; c < columns; ++c) {
      bytes[r * columns + c] = Fp8Of(wide[first + r][column + c].item<float>() / scales[r]);
    }
  }
  return {.name = "w", .value = {}, .gradient = {}, .packed = std::move(packed)};
}

Weight WholeWeight(const at::Tensor& matrix) { return Fp8Weight(matrix, 0, matrix.size(0), 0, matrix.size(1)); }

TEST(Fp8Linear, RoundsRowsAsTheirCodesSay) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    at::Tensor x = WideRandom(40, 48, type);
    x[3].zero_();
    x[4][5] = 0.875;
    EXPECT_TRUE(at::equal(RoundedToFp8(x).to(at::kFloat), RoundedByHand(x)));
    x[2][7] = std::numeric_limits<float>::infinity();
    EXPECT_TRUE(RoundedToFp8(x)[2].isnan().any().item<bool>());
  }
}

// The gradient of y is rounded with the weight's scales in it, so that both directions multiply by the same codes.
TEST(Fp8Linear, MultipliesTheCodes) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    const at::Tensor matrix = WideRandom(32, 48, type), bias = at::randn({32}).to(type);
    const Weight weight = WholeWeight(matrix), offset{"b", bias, {}};
    const at::Tensor rounded = RoundedByHand(matrix), scales = at::empty({32});
    for (int64_t r = 0; r < 32; ++r) scales[r] = Fp8RowScale(matrix[r].abs().max().item<float>());
    EXPECT_TRUE(at::equal(MatrixOf(weight).to(at::kFloat), rounded));
    at::Tensor x = WideRandom(21, 48, type).set_requires_grad(true);
    const at::Tensor y = Linear(x, weight, &offset), seed = WideRandom(21, 32, type);
    y.backward(seed);
    const at::Tensor gradient = at::mm(RoundedByHand(seed.to(at::kFloat) * scales) / scales, rounded);
    EXPECT_LT(RelativeError(y, at::mm(RoundedByHand(x.detach()), rounded.t()) + bias.to(at::kFloat)), Tolerance(type));
    EXPECT_LT(RelativeError(x.grad(), gradient), Tolerance(type));
  }
}

// A weight that is trained has the products of one that is stored in codes; its own gradient is of what was not
// rounded.
TEST(Fp8Linear, CastsWhatIsTrained) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    const at::Tensor matrix = WideRandom(32, 48, type), bias = at::randn({32}).to(type),
                     seed = WideRandom(21, 32, type), values = WideRandom(21, 48, type);
    const Weight stored = WholeWeight(matrix), offset{"b", bias, {}};
    Weight trained{.name = "w", .value = matrix, .gradient = at::ones({32, 48})};
    trained.cast_to_fp8 = true;
    const auto pass = [&](const Weight& weight) {
      const at::Tensor x = values.clone().set_requires_grad(true), y = Linear(x, weight, &offset);
      y.backward(seed);
      return std::pair(y.detach(), x.grad());
    };
    const auto [y, x_gradient] = pass(trained);
    const auto [wanted, wanted_gradient] = pass(stored);
    EXPECT_TRUE(at::equal(y, wanted));
    EXPECT_TRUE(at::equal(x_gradient, wanted_gradient));
    const at::Tensor plain = at::mm(seed.to(at::kFloat).t(), values.to(at::kFloat)) + 1;
    EXPECT_LT(RelativeError(trained.gradient, plain), Tolerance(type));
    EXPECT_TRUE(at::equal(InferLinear(values, trained, &offset), wanted));
  }
}

// Ranks that split a row of a weight agree on its scale.
TEST(Fp8Linear, CastsPartsAsTheWhole) {
  const at::Tensor matrix = WideRandom(32, 96, at::kFloat);
  Weight whole{.name = "w", .value = matrix, .gradient = {}}, half = whole;
  whole.cast_to_fp8 = half.cast_to_fp8 = true;
  half.value = matrix.narrow(1, 0, 48).contiguous();
  const SplitContraction split{
      .inputs = [&](const at::Tensor& of_rows) { at::Tensor(of_rows).copy_(matrix.abs().amax(1)); }, .outputs = {}};
  const Fp8Matrix all = Fp8MatrixOf(whole, nullptr), part = Fp8MatrixOf(half, &split);
  EXPECT_TRUE(at::equal(part.scales, all.scales));
  EXPECT_TRUE(at::equal(part.codes, all.codes.narrow(1, 0, 48)));
}

// Two ranks with half of the columns each, then with half of the rows: they agree on the largest of every row.
TEST(Fp8Linear, SplitRowsAreRoundedAsWholeOnes) {
  const at::Tensor matrix = WideRandom(64, 96, at::kFloat), x = WideRandom(30, 96, at::kFloat),
                   gradient = WideRandom(30, 64, at::kFloat);
  const Weight whole = WholeWeight(matrix);
  const auto largest_of = [](const at::Tensor& all) {
    return [all](const at::Tensor& of_rows) { at::Tensor(of_rows).copy_(all.abs().amax(1)); };
  };
  at::Tensor y = at::zeros({30, 64}), back = at::zeros({30, 96});
  const at::Tensor scaled = gradient * at::tensor([&] {
                              std::vector<float> scales;
                              for (int64_t r = 0; r < 64; ++r)
                                scales.push_back(Fp8RowScale(matrix[r].abs().max().item<float>()));
                              return scales;
                            }());
  const SplitContraction split{.inputs = largest_of(x), .outputs = largest_of(scaled)};
  for (int64_t rank = 0; rank < 2; ++rank) {
    const Weight columns = Fp8Weight(matrix, 0, 64, 48 * rank, 48), rows = Fp8Weight(matrix, 32 * rank, 32, 0, 96);
    y += Fp8Linear(x.narrow(1, 48 * rank, 48).contiguous(), Fp8MatrixOf(*columns.packed), {}, &split);
    back += Fp8InputGradient(gradient.narrow(1, 32 * rank, 32).contiguous(), Fp8MatrixOf(*rows.packed), &split);
  }
  EXPECT_LT(RelativeError(y, Fp8Linear(x, Fp8MatrixOf(*whole.packed), {}, nullptr)), 1e-6);
  EXPECT_LT(RelativeError(back, Fp8InputGradient(gradient, Fp8MatrixOf(*whole.packed), nullptr)), 1e-6);
}

}  // namespace
}  // namespace trireme
