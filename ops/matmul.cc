#include "ops/matmul.h"

#include <ATen/ops/from_blob.h>
#include <ATen/ops/mm.h>

// The standard Fortran and MKL's C interface, 32-bit integers. Weak: null if libtorch does not export them.
extern "C" {
__attribute__((weak)) void sgemm_(const char* transpose_a, const char* transpose_b, const int* m, const int* n,
                                  const int* k, const float* alpha, const float* a, const int* lda, const float* b,
                                  const int* ldb, const float* beta, float* c, const int* ldc);
__attribute__((weak)) void cblas_gemm_bf16bf16f32(int layout, int transpose_a, int transpose_b, int m, int n, int k,
                                                  float alpha, const void* a, int lda, const void* b, int ldb,
                                                  float beta, float* c, int ldc);
}

namespace trireme {
namespace {

constexpr int kRowMajor = 101, kPlain = 111, kTransposed = 112;

template <typename T>
at::Tensor View(const Operand<T>& operand, int64_t rows, int64_t columns, at::ScalarType type) {
  const std::vector<int64_t> strides =
      operand.transposed ? std::vector<int64_t>{1, operand.stride} : std::vector<int64_t>{operand.stride, 1};
  return at::from_blob(const_cast<T*>(operand.data), {rows, columns}, strides, at::TensorOptions(type));
}

template <typename T>
void AtenMatMul(const Operand<T>& a, const Operand<T>& b, const MatMulShape& shape, float* result,
                at::ScalarType type) {
  at::Tensor sum = at::from_blob(result, {shape.m, shape.n}, {shape.stride, 1}, at::TensorOptions(at::kFloat));
  const at::Tensor product = at::mm(View(a, shape.m, shape.k, type), View(b, shape.k, shape.n, type));
  if (shape.add) {
    sum.add_(product);
  } else {
    sum.copy_(product);
  }
}

}  // namespace

void MatMul(const Operand<float>& a, const Operand<float>& b, const MatMulShape& shape, float* result) {
  if (shape.m == 0 || shape.n == 0) return;
  if (sgemm_ == nullptr) return AtenMatMul(a, b, shape, result, at::kFloat);
  // Fortran's matrices are column-major: it computes the transpose, bᵀ aᵀ.
  const int m = static_cast<int>(shape.m), n = static_cast<int>(shape.n), k = static_cast<int>(shape.k);
  const int lda = static_cast<int>(a.stride), ldb = static_cast<int>(b.stride);
  const int ldc = static_cast<int>(shape.stride);
  const float one = 1, beta = shape.add ? 1.0f : 0.0f;
  sgemm_(b.transposed ? "T" : "N", a.transposed ? "T" : "N", &n, &m, &k, &one, b.data, &ldb, a.data, &lda, &beta,
         result, &ldc);
}

void MatMul(const Operand<cpu::Bf16>& a, const Operand<cpu::Bf16>& b, const MatMulShape& shape, float* result) {
  if (shape.m == 0 || shape.n == 0) return;
  if (cblas_gemm_bf16bf16f32 == nullptr) return AtenMatMul(a, b, shape, result, at::kBFloat16);
  cblas_gemm_bf16bf16f32(kRowMajor, a.transposed ? kTransposed : kPlain, b.transposed ? kTransposed : kPlain,
                         static_cast<int>(shape.m), static_cast<int>(shape.n), static_cast<int>(shape.k), 1.0f, a.data,
                         static_cast<int>(a.stride), b.data, static_cast<int>(b.stride), shape.add ? 1.0f : 0.0f,
                         result, static_cast<int>(shape.stride));
}

}  // namespace trireme
