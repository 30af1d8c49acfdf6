// Which parameter lies where in a distributed optimizer's flat buffer: by values, and by the modules' order where these
// are equal.
#include "checkpoint/megatron/flat_buffer.h"

#include <gtest/gtest.h>

#include <cstring>

#include "checkpoint/elements.h"
#include "tests/checkpoint/scratch.h"

namespace trireme {
namespace {

// Masters in a buffer, and the weights of them in bf16.
class Flat {
 public:
  // `at`: from here on; the master is the weight and a little more, which bf16 does not see.
  void Put(size_t at, const std::vector<float>& weights) {
    values_.resize(std::max(values_.size(), at + weights.size()), 9);
    for (size_t i = 0; i < weights.size(); ++i) values_[at + i] = weights[i] * 1.0005F;
  }
  FlatBuffer Buffer(int64_t parts = 1) const {
    FlatBuffer buffer;
    const auto count = static_cast<int64_t>(values_.size());
    for (int64_t i = parts; i-- > 0;) {
      const int64_t begin = count * i / parts, size = count * (i + 1) / parts - begin;
      buffer.Add(begin, size,
                 [this, begin, size] { return StridedTensor{DType::kFp32, {size}, {1}, values_.data() + begin}; });
    }
    return buffer;
  }

 private:
  std::vector<float> values_;
};

LocalParameter Named(const std::string& name, const std::vector<float>& weights) {
  return {name, DType::kBf16, {static_cast<int64_t>(weights.size())}, [weights](void* target) {
            Convert(DType::kFp32, weights.data(), DType::kBf16, target, weights.size());
          }};
}

std::vector<float> Values(size_t count, float first) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) values[i] = first + 4 * static_cast<float>(i % 16);
  return values;
}

std::string Found(const FlatBuffer& buffer, const std::vector<LocalParameter>& parameters,
                  const std::vector<int64_t>& buckets = {0}) {
  std::string text;
  for (const FoundParameter& one : FindParameters(buffer, parameters, buckets, "distrib_optim.pt"))
    text += Concat(text.empty() ? "" : " ", parameters[one.parameter].name, "@", one.begin);
  return text;
}

TEST(FlatBuffer, ReadsAcrossItsPartsAndRefusesGaps) {
  Flat flat;
  flat.Put(0, Values(100, 1));
  const FlatBuffer buffer = flat.Buffer(3);
  EXPECT_EQ(buffer.size(), 100);
  std::vector<float> found(60), wanted(60);
  buffer.Read(20, 60, found.data(), "file");
  flat.Buffer().Read(20, 60, wanted.data(), "file");
  EXPECT_EQ(found, wanted);
  EXPECT_EQ(buffer.View(20, 60).data, nullptr);
  EXPECT_NE(buffer.View(40, 20).data, nullptr);
  FlatBuffer gap;
  gap.Add(50, 10, [] { return StridedTensor{DType::kFp32, {10}, {1}, nullptr}; });
  EXPECT_NE(ErrorOf([&] { gap.Read(0, 10, found.data(), "file"); }).find("files of other ranks are missing"),
            std::string::npos);
}

TEST(FindParameters, GoesBackwardsFromOneMultipleOf64ToTheNext) {
  Flat flat;
  flat.Put(0, Values(100, 3));
  flat.Put(128, Values(64, 2));
  flat.Put(192, Values(10, 1));
  EXPECT_EQ(Found(flat.Buffer(2), {Named("a", Values(10, 1)), Named("b", Values(64, 2)), Named("c", Values(100, 3))}),
            "c@0 b@128 a@192");
}

TEST(FindParameters, FindsABucketThatBeginsWhereTheLastOneEnds) {
  Flat flat;
  flat.Put(0, Values(100, 3));
  flat.Put(100, Values(70, 2));
  flat.Put(228, Values(10, 1));
  EXPECT_EQ(Found(flat.Buffer(), {Named("a", Values(10, 1)), Named("b", Values(70, 2)), Named("c", Values(100, 3))}),
            "c@0 b@100 a@228");
}

TEST(FindParameters, SkipsParametersThatAreInAnotherBuffer) {
  Flat flat;
  flat.Put(0, Values(64, 5));
  flat.Put(64, Values(64, 1));
  EXPECT_EQ(Found(flat.Buffer(), {Named("a", Values(64, 1)), Named("expert", Values(64, 2)), Named("b", Values(64, 5)),
                                  Named("c", Values(64, 7))}),
            "b@0 a@64");
}

TEST(FindParameters, KeepsTheOrderOfEqualValues) {
  const std::vector<float> ones(64, 1);
  Flat flat;
  flat.Put(0, Values(64, 5));
  flat.Put(64, ones);
  flat.Put(128, Values(64, 6));
  flat.Put(192, ones);
  EXPECT_EQ(Found(flat.Buffer(),
                  {Named("norm0", ones), Named("w0", Values(64, 6)), Named("norm1", ones), Named("w1", Values(64, 5))}),
            "w1@0 norm1@64 w0@128 norm0@192");
}

TEST(FindParameters, RefusesElementsOfNoParameter) {
  Flat flat;
  flat.Put(0, Values(64, 5));
  flat.Put(64, Values(64, 1));
  const FlatBuffer buffer = flat.Buffer();
  const std::string error = ErrorOf([&] { Found(buffer, {Named("a", Values(64, 2)), Named("b", Values(64, 5))}); });
  EXPECT_NE(error.find("from element 64 of 128"), std::string::npos) << error;
  EXPECT_NE(error.find("'b' being the last found"), std::string::npos) << error;
}

}  // namespace
}  // namespace trireme
