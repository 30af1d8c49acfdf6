#include "ops/fp8_linear/cuda.h"

#include <ATen/ops/_scaled_mm.h>
#include <ATen/ops/add.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>

#include <optional>

#include "core/base/error.h"
#include "ops/cuda/launch.h"

namespace trireme {
namespace {

struct CastRows {
  at::Tensor codes;   // [rows, columns] e4m3
  at::Tensor scales;  // [rows, 1] fp32
};

// factors: [columns] bf16 that the row is multiplied by first; undefined: none.
CastRows Cast(const at::Tensor& rows, const at::Tensor& factors, const SplitContraction::Largest& largest) {
  const int64_t count = rows.size(0), columns = rows.size(1);
  CastRows cast{at::empty({count, columns}, rows.options().dtype(at::kFloat8_e4m3fn)),
                at::empty({count, 1}, rows.options().dtype(at::kFloat))};
  cuda::CastRowsArgs args{.rows = rows.const_data_ptr(),
                          .factors = factors.defined() ? factors.const_data_ptr() : nullptr,
                          .largest = nullptr,
                          .codes = static_cast<uint8_t*>(cast.codes.data_ptr()),
                          .scales = cast.scales.data_ptr<float>(),
                          .count = count,
                          .columns = columns};
  at::Tensor of_rows;
  if (largest) {
    of_rows = at::empty({count}, cast.scales.options());
    args.largest = of_rows.data_ptr<float>();
    CheckLaunch(CudaKernels().largest_of_rows(args, CudaStream()), "largest_of_rows");
    largest(of_rows);
  }
  CheckLaunch(CudaKernels().cast_rows(args, CudaStream()), "cast_rows");
  return cast;
}

// [in, out]
at::Tensor TurnedCodes(const Fp8Matrix& matrix) {
  const at::Tensor& from = matrix.codes.defined() ? matrix.codes : matrix.source;
  const int64_t rows = from.size(0), columns = from.size(1);
  const at::Tensor turned = at::empty({columns, rows}, from.options().dtype(at::kByte));
  uint8_t* to = turned.data_ptr<uint8_t>();
  if (matrix.codes.defined()) {
    CheckLaunch(CudaKernels().turn_bytes(from.const_data_ptr<uint8_t>(), to, rows, columns, CudaStream()),
                "turn_bytes");
    return turned;
  }
  CheckLaunch(CudaKernels().cast_turned(from.const_data_ptr(), matrix.scales.const_data_ptr<float>(), to, rows, columns,
                                        CudaStream()),
              "cast_turned");
  return turned;
}

// Fewer rows than this with a bias are refused by cuBLASLt where they are long.
constexpr int64_t kRowsWithBias = 64;

// matrix: [out, in] codes, as bytes.
at::Tensor Product(const CastRows& cast, const at::Tensor& matrix, const at::Tensor& scales, const at::Tensor& bias) {
  const bool inside = bias.defined() && cast.codes.size(0) >= kRowsWithBias;
  const at::Tensor y = at::_scaled_mm(cast.codes, matrix.view(at::kFloat8_e4m3fn).t(), cast.scales, scales,
                                      inside ? std::optional(bias) : std::nullopt, std::nullopt, at::kBFloat16,
                                      /*use_fast_accum=*/true);
  return inside || !bias.defined() ? y : y.add_(bias);
}

}  // namespace

std::string WhyNoCudaFp8(const Fp8Case& c) {
  if (!c.rows.is_cuda()) return "cuBLAS is for a GPU";
  if (c.rows.scalar_type() != at::kBFloat16) return "cuBLAS has no fp32 results of e4m3 rows";
  return WhyNoCudaKernel(c.rows);
}

at::Tensor CudaFp8Linear(const Fp8Case& c) {
  const CastRows cast = Cast(c.rows, {}, c.largest);
  return Product(cast, c.matrix.codes, c.matrix.scales.unsqueeze(0), c.bias);
}

at::Tensor CudaFp8InputGradient(const Fp8Case& c) {
  const CastRows cast = Cast(c.rows, c.matrix.scales.to(at::kBFloat16), c.largest);
  const at::Tensor turned = TurnedCodes(c.matrix);
  return Product(cast, turned, at::ones({1, turned.size(0)}, cast.scales.options()), {});
}

std::string WhyNoCudaFewRows(const Fp8Case& c) {
  if (std::string why = WhyNoCudaFp8(c); !why.empty()) return why;
  if (!c.matrix.codes.defined()) return "the weight is not stored in e4m3";
  if (c.rows.size(0) > cuda::kFewRows) return Concat("more than ", cuda::kFewRows, " rows; cuBLAS is faster");
  return "";
}

at::Tensor CudaFewRows(const Fp8Case& c) {
  const int64_t count = c.rows.size(0), in = c.matrix.codes.size(1), out = c.matrix.codes.size(0);
  const at::Tensor y = at::empty({count, out}, c.rows.options());
  cuda::FewRowsArgs args{.rows = c.rows.const_data_ptr(),
                         .codes = nullptr,
                         .scales = nullptr,
                         .matrix = c.matrix.codes.const_data_ptr<uint8_t>(),
                         .matrix_scales = c.matrix.scales.const_data_ptr<float>(),
                         .bias = c.bias.defined() ? c.bias.const_data_ptr() : nullptr,
                         .y = y.data_ptr(),
                         .count = count,
                         .in = in,
                         .out = out,
                         .early = c.matrix.stored};
  CastRows cast;  // until the launch
  if (count > 1 || c.largest || in > cuda::kMostCastInside) {
    cast = Cast(c.rows, {}, c.largest);
    args.codes = static_cast<const uint8_t*>(cast.codes.const_data_ptr());
    args.scales = cast.scales.const_data_ptr<float>();
  }
  CheckLaunch(CudaKernels().few_rows(args, CudaStream()), "few_rows");
  return y;
}

Fp8Matrix CudaCastToFp8(const at::Tensor& matrix, const SplitContraction::Largest& largest) {
  const CastRows cast = Cast(matrix, {}, largest);
  return {.codes = cast.codes.view(at::kByte), .scales = cast.scales.squeeze(1)};
}

}  // namespace trireme
