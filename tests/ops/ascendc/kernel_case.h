// For the kernels' property tests: random cases of type, shape, values and cores, and comparison with fp64.
// The tests run in the checked build, so each case also exercises its rules.
#pragma once

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <string>

#include "core/base/error.h"
#include "ops/kernel_place.h"

namespace trireme {

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();

class KernelCase {
 public:
  explicit KernelCase(unsigned seed) : random_(seed) {
    at::manual_seed(seed);
    type_ = Pick({at::kFloat, at::kHalf, at::kBFloat16});
    // Few threads, since the machine is small; many cores, so that shares come out uneven and empty.
    place_ = PlaceOf(at::empty({1}));
    place_.cores = static_cast<uint32_t>(Pick({1, 2, 3, 5, 40, 48}));
    place_.longest_tile = static_cast<uint32_t>(Pick({64, 128, 1024, 1 << 30}));
  }

  int64_t Between(int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(random_); }
  template <typename T>
  T Pick(std::initializer_list<T> choices) {
    return *(choices.begin() + Between(0, static_cast<int64_t>(choices.size()) - 1));
  }
  bool Chance(double p) { return std::bernoulli_distribution(p)(random_); }

  // Mostly tails of every residue, sometimes a power of two or a number next to one.
  int64_t Columns(int64_t largest = 700) {
    return std::min(largest, Chance(0.7) ? Between(1, 90) : (int64_t{1} << Between(4, 9)) + Between(-1, 1));
  }
  int64_t Rows() { return Chance(0.1) ? 0 : Between(1, 9); }

  // Normally distributed numbers of some magnitude; occasionally with many zeros or denormals.
  at::Tensor Values(at::IntArrayRef shape, at::ScalarType type) {
    at::Tensor values = at::randn(shape, at::kDouble) * std::pow(10.0, static_cast<double>(Between(-2, 1)));
    if (Chance(0.1)) values = values * at::rand(shape, at::kDouble).gt(0.7);
    if (Chance(0.1)) values = at::where(at::rand(shape, at::kDouble).gt(0.5), values, at::full({}, 1e-41, at::kDouble));
    return values.to(type);
  }
  at::Tensor Values(at::IntArrayRef shape) { return Values(shape, type_); }
  at::Tensor Empty(at::IntArrayRef shape,
                   at::ScalarType type) const {  // old contents show where nothing was written
    return at::full(shape, type == at::kInt ? -7.0 : 1234.0, type);
  }
  at::Tensor Empty(at::IntArrayRef shape) const { return Empty(shape, type_); }

  at::ScalarType type() const { return type_; }
  const ascendc::KernelPlace& place() const { return place_; }
  ascendc::Element element() const { return ElementOf(at::empty({0}, type_)); }
  // The relative error that one or two roundings may leave.
  double Tolerance() const { return type_ == at::kFloat ? 3e-6 : (type_ == at::kHalf ? 1.6e-3 : 1.2e-2); }
  std::string Text() const { return Concat(c10::toString(type_), ", ", place_.cores, " cores"); }

 private:
  std::mt19937 random_;
  at::ScalarType type_;
  ascendc::KernelPlace place_;
};

// Each element within tolerance · (its magnitude + the typical magnitude) + absolute, NaN and infinities at
// the same positions.
inline void ExpectNear(const at::Tensor& found, const at::Tensor& wanted, double tolerance, const std::string& context,
                       double absolute = 1e-37) {
  ASSERT_EQ(found.sizes(), wanted.sizes()) << context;
  if (found.numel() == 0) return;
  const double largest = found.scalar_type() == at::kHalf ? 65519 : 3.3e38;  // larger is infinity in the type
  const at::Tensor f = found.to(at::kDouble), w = wanted.to(at::kDouble);
  const at::Tensor finite = w.isfinite().logical_and(w.abs().lt(largest));
  const at::Tensor typical = at::where(finite, w, at::zeros_like(w)).square().mean().sqrt();
  const at::Tensor near =
      (f - w).abs().le(tolerance * (w.abs() + typical) + absolute + (found.scalar_type() == at::kHalf ? 6e-8 : 0));
  const at::Tensor same = f.isnan().logical_and(w.isnan()).logical_or(w.abs().ge(largest).logical_and(f.isinf()));
  const at::Tensor wrong = near.logical_or(same).logical_not();
  if (!wrong.any().item<bool>()) return;
  const int64_t at = wrong.flatten().to(at::kInt).argmax().item<int64_t>();
  ADD_FAILURE() << context << ": " << wrong.sum().item<int64_t>() << " of " << wrong.numel() << " wrong; element " << at
                << " is " << f.flatten()[at].item<double>() << ", wanted " << w.flatten()[at].item<double>();
}

template <typename T>
T* Of(const at::Tensor& tensor) {
  return static_cast<T*>(tensor.data_ptr());
}

// Runs `one(case, context)` for seeds 0 … count - 1 until one fails.
template <typename One>
void ForCases(unsigned count, const One& one) {
  for (unsigned seed = 0; seed < count && !::testing::Test::HasFailure(); ++seed) {
    KernelCase c(seed);
    one(c, Concat("seed ", seed, ", ", c.Text()));
  }
}

}  // namespace trireme
