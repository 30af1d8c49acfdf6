// Weights of one rank: as files store them (in fp8 with scales, experts fused, copies that differ), and as they
// are drawn.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>

#include "checkpoint/safetensors_writer.h"
#include "core/base/error.h"
#include "session/load_weights.h"
#include "session/random_weights.h"
#include "tests/checkpoint/scratch.h"

namespace trireme {
namespace {

// Tensors in memory, as if they were a directory's.
class Tensors : public TensorSource {
 public:
  void Add(const std::string& name, DType dtype, const at::Tensor& tensor) {
    kept_[name] = tensor.contiguous();
    const Shape shape(tensor.sizes().begin(), tensor.sizes().end());
    const auto* bytes = static_cast<const std::byte*>(kept_[name].data_ptr());
    views_[name] = {dtype, shape, {bytes, kept_[name].nbytes()}};
  }
  bool Has(const std::string& name) const override { return views_.contains(name); }
  const TensorView& Find(const std::string& name) const override { return views_.at(name); }
  TensorView Describe(const std::string& name) const override { return views_.at(name); }
  std::filesystem::path FileOf(const std::string&) const override { return "model.safetensors"; }

 private:
  std::map<std::string, at::Tensor> kept_;
  std::map<std::string, TensorView> views_;
};

// A parameter's entry on a rank, its value -1 everywhere.
Weights::Entry EntryOf(Parameter parameter, int tensor_ranks = 1) {
  const Grids grids = MakeGrids(tensor_ranks, {.tensor = tensor_ranks});
  Placement placement(parameter.declaration, grids);
  const at::Tensor value = at::full(placement.LocalShape(), -1.0, at::kFloat);
  const std::string name = parameter.declaration.name;
  return {std::move(parameter), std::move(placement), {name, value, {}}};
}

Parameter Matrix(int64_t rows, int64_t columns) {
  return PlainParameter({.name = "w", .dims = {WholeDim(rows), WholeDim(columns)}}, "w");
}

TEST(LoadWeights, Fp8IsMultipliedByTheScalesOfItsBlocks) {
  Tensors files;
  const at::Tensor small = at::randint(-8, 8, {130, 3}, at::kFloat);  // exact in fp8
  files.Add("w", DType::kFp8E4M3, small.to(at::kFloat8_e4m3fn));
  files.Add("w_scale_inv", DType::kFp32, at::tensor({2.0f, 5.0f}).view({2, 1}));
  Weights::Entry entry = EntryOf(Matrix(130, 3));
  LoadWeights(files, {&entry}, 0);
  EXPECT_TRUE(entry.weight.value.narrow(0, 0, 128).equal(small.narrow(0, 0, 128) * 2));
  EXPECT_TRUE(entry.weight.value.narrow(0, 128, 2).equal(small.narrow(0, 128, 2) * 5));
}

TEST(LoadWeights, FusedExpertsAreReadInEitherOrder) {
  const at::Tensor wanted = at::randn({2, 3, 4});  // [experts, out, in]
  for (const bool transposed : {false, true}) {
    Tensors files;
    files.Add("m.experts.down_proj", DType::kFp32, transposed ? wanted.transpose(1, 2) : wanted);
    Parameter parameter;
    parameter.declaration = {.name = "w", .dims = {WholeDim(2), WholeDim(3), WholeDim(4)}};
    for (int64_t expert : {0, 1}) {
      const Box box{{expert, 0, 0}, {1, 3, 4}};
      parameter.hf.push_back({Concat("m.experts.", expert, ".down_proj.weight"), {3, 4}, box});
    }
    Weights::Entry entry = EntryOf(std::move(parameter));
    LoadWeights(files, {&entry}, 0);
    EXPECT_TRUE(entry.weight.value.equal(wanted)) << transposed;
  }
}

TEST(LoadWeights, AValueThatIsNotFiniteIsRefusedByName) {
  for (const float value : {std::nanf(""), std::numeric_limits<float>::infinity()}) {
    Tensors files;
    at::Tensor weights = at::ones({4, 3});
    weights[2][1] = value;
    files.Add("w", DType::kFp32, weights);
    Weights::Entry entry = EntryOf(Matrix(4, 3));
    EXPECT_EQ(ErrorOf([&] { LoadWeights(files, {&entry}, 0); }),
              "model.safetensors: tensor 'w' has values that are not finite; the file is damaged or the model "
              "diverged");
  }
}

// A bucket keeps all its weights in one buffer.
TEST(LoadWeights, EachWeightIsReadIntoItsOwnPartOfABuffer) {
  Tensors files;
  const at::Tensor wanted = at::randn({2, 3});
  files.Add("w", DType::kFp32, wanted);
  const at::Tensor buffer = at::zeros({10});
  Weights::Entry entry = EntryOf(Matrix(2, 3));
  entry.weight.value = buffer.narrow(0, 4, 6).view({2, 3});
  LoadWeights(files, {&entry}, 0);
  EXPECT_TRUE(entry.weight.value.equal(wanted));
  EXPECT_TRUE(buffer.narrow(0, 0, 4).eq(0).all().item<bool>());
}

TEST(LoadWeights, ACopyThatDiffersIsReported) {
  const std::vector<float> ones(6, 1), twos(6, 2);
  LayerGraph graph;
  graph.layers.push_back(
      {.name = "mtp.0", .spec = {}, .hf_names = {{"embedding", "first"}}, .repeated = {{"embedding", {"copy"}}}});
  for (const bool differs : {false, true}) {
    const Scratch scratch;
    WriteSafetensors(scratch.path() / "model.safetensors",
                     {{"first", DType::kFp32, {2, 3}, ones.data()},
                      {"copy", DType::kFp32, {2, 3}, differs ? twos.data() : ones.data()}},
                     {});
    testing::internal::CaptureStderr();
    WarnOfUnequalCopies(HfDirectory(scratch.path()), graph);
    const std::string said = testing::internal::GetCapturedStderr();
    EXPECT_EQ(said.find("'copy' differs from 'first'") != std::string::npos, differs) << said;
  }
}

// Split by rows or by columns, ranks together hold the weights that one rank alone draws.
TEST(RandomWeights, DoNotDependOnTheLayout) {
  for (const int64_t dim : {0, 1}) {
    const auto parameter = [&](int ranks) {
      std::vector<Dim> dims = {WholeDim(6), WholeDim(4)};
      dims[static_cast<size_t>(dim)] = SplitDim("tp", {{.size = dim == 0 ? 6 : 4, .parts = ranks}});
      return PlainParameter({.name = "w", .dims = dims}, "w");
    };
    Weights::Entry whole = EntryOf(parameter(1));
    FillRandomWeights({&whole}, 0, /*seed=*/7);
    std::vector<at::Tensor> parts;
    for (int rank = 0; rank < 2; ++rank) {
      Weights::Entry part = EntryOf(parameter(2), 2);
      FillRandomWeights({&part}, rank, /*seed=*/7);
      parts.push_back(part.weight.value);
    }
    EXPECT_TRUE(at::cat(parts, dim).equal(whole.weight.value)) << "dim " << dim;
  }
}

// Wherever ranks have it, and no other row, nor that of another matrix.
TEST(RandomWeights, ThePaddingTokensRowIsZero) {
  LayerGraph graph;
  graph.layers = {
      {.name = "embedding", .spec = EmbeddingSpec{.vocabulary = 6, .hidden = 4, .padding = 4}, .hf_names = {}}};
  const auto filled = [&](const std::string& name, int ranks) {
    std::vector<at::Tensor> parts;
    for (int rank = 0; rank < ranks; ++rank) {
      std::vector<Dim> dims = {SplitDim("tp", {{.size = 6, .parts = ranks}}), WholeDim(4)};
      Weights::Entry entry = EntryOf(PlainParameter({.name = name, .dims = dims}, name), ranks);
      FillRandomWeights({&entry}, rank, /*seed=*/7);
      ZeroPaddingRow({&entry}, graph, rank);
      parts.push_back(entry.weight.value);
    }
    return at::cat(parts, 0).ne(0).all(1);
  };
  const at::Tensor but_one = at::tensor({1, 1, 1, 1, 0, 1}).ne(0);
  for (const int ranks : {1, 2, 3}) EXPECT_TRUE(filled("embedding.embedding.weight", ranks).equal(but_one)) << ranks;
  EXPECT_TRUE(filled("head.logits.weight", 1).all().item<bool>());
  std::get<EmbeddingSpec>(graph.layers.front().spec).padding = kNoPadding;
  EXPECT_TRUE(filled("embedding.embedding.weight", 1).all().item<bool>());
}

TEST(RandomWeights, UniformOnesLieOnBothSidesOfZero) {
  Parameter parameter = Matrix(100, 100);
  parameter.initial = {.kind = Initial::Kind::kUniform, .deviation = 0.5};
  Weights::Entry entry = EntryOf(std::move(parameter));
  FillRandomWeights({&entry}, 0, /*seed=*/7);
  const at::Tensor& value = entry.weight.value;
  EXPECT_NEAR(value.mean().item<float>(), 0, 0.02);
  EXPECT_NEAR(value.min().item<float>(), -0.5, 0.01);
  EXPECT_NEAR(value.max().item<float>(), 0.5, 0.01);
}

}  // namespace
}  // namespace trireme
