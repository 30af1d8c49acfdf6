// For the tests of AscendC's functions: one block's core on the calling thread, tensors filled from vectors
// and read back. The same tests run in the fast and in the checked build.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "kernel_operator.h"

namespace ascendc_test {

using namespace AscendC;

class OnCore {
 public:
  OnCore() { twin::ascendc::BeginBlock("test", 0, 1, &shared_, policy::kChecked), pipe_.Init(); }
  ~OnCore() {
    EXPECT_NO_THROW(twin::ascendc::EndBlock());
    twin::ascendc::LeaveBlock();
  }

  template <typename T>
  LocalTensor<T> Empty(size_t count) {
    TBuf<> buffer;
    pipe_.InitBuffer(buffer, static_cast<uint32_t>(std::max<size_t>(count * sizeof(T), 32)));
    return buffer.Get<T>();
  }
  template <typename T>
  LocalTensor<T> Tensor(const std::vector<T>& values) {
    LocalTensor<T> tensor = Empty<T>(values.size());
    for (size_t i = 0; i < values.size(); ++i) tensor.SetValue(static_cast<uint32_t>(i), values[i]);
    PipeBarrier<PIPE_ALL>();
    return tensor;
  }
  template <typename T>
  std::vector<T> Values(const LocalTensor<T>& tensor, size_t count) {
    PipeBarrier<PIPE_ALL>();
    std::vector<T> values(count);
    for (size_t i = 0; i < count; ++i) values[i] = tensor.GetValue(static_cast<uint32_t>(i));
    PipeBarrier<PIPE_ALL>();
    return values;
  }

 private:
  twin::ascendc::LaunchShared shared_;
  TPipe pipe_;
};

template <typename T>
std::vector<float> Floats(const std::vector<T>& values) {
  return std::vector<float>(values.begin(), values.end());
}

// Small numbers that each type represents exactly, so that results can be compared bit by bit.
template <typename T>
std::vector<T> Random(size_t count, unsigned seed = 1) {
  std::mt19937 random(seed);
  std::uniform_int_distribution<int> whole(-40, 40);
  std::vector<T> values(count);
  for (T& value : values) {
    const int drawn = whole(random);
    value = std::is_integral_v<T> ? static_cast<T>(drawn) : static_cast<T>(static_cast<float>(drawn) / 8.0f);
  }
  return values;
}

template <typename T>
GlobalTensor<T> Global(std::vector<T>& values) {
  GlobalTensor<T> tensor;
  tensor.SetGlobalBuffer(values.data(), values.size());
  return tensor;
}

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

}  // namespace ascendc_test
