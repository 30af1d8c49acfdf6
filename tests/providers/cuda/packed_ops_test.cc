// On device cuda: weights that are stored in 4 and 8 bits, and products in FP8, against their references on the same
// GPU.
#include <limits>
#include <memory>
#include <tuple>

#include "ops/dequantise/dequantise.h"
#include "ops/fp8_linear/fp8_linear.h"
#include "ops/rms_norm/rms_norm.h"
#include "tests/providers/cuda/ops_fixture.h"

namespace trireme {
namespace {

// Parts of matrices: whole rows, and columns whose blocks a split cuts.
TEST_P(CudaOps, Dequantise) {
  using Kind = PackedStorage::Kind;
  const PackedPart whole{.name = "w",
                         .matrix_rows = 37,
                         .matrix_columns = 100,
                         .first_row = 3,
                         .rows = 30,
                         .columns = 100,
                         .local_stride = 100};
  const PackedPart cut{.name = "w",
                       .matrix_rows = 600,
                       .matrix_columns = 531,
                       .first_column = 17,
                       .rows = 600,
                       .columns = 307,
                       .local_stride = 307};
  for (const PackedPart& part : {whole, cut}) {
    for (const PackedStorage& storage :
         {PackedStorage{}, PackedStorage{Kind::kFp4, 32, false}, PackedStorage{Kind::kNf4, 4096, true}, kInt8Storage}) {
      Compare("dequantise", "cuda", 0, [&] {
        const PackedParts parts = PlaceParts(storage, {part});
        const auto packed = std::make_shared<PackedWeight>(parts, Shape{part.rows, part.columns}, GetParam());
        packed->bytes = at::randint(256, {(parts.bytes + 3) / 4 * 4}, options_.dtype(at::kByte));
        const int64_t floats = storage.nested ? parts.parts[0].nested : parts.parts[0].scales;
        packed->bytes.narrow(0, floats, packed->bytes.numel() - floats).view(at::kFloat).normal_();
        return Tensors{MatrixOf(Weight{.name = "w", .value = {}, .gradient = {}, .packed = packed})};
      });
    }
  }
}

PackedParts Fp8Parts(int64_t out, int64_t in) {
  const PackedPart part{
      .name = "w", .matrix_rows = out, .matrix_columns = in, .rows = out, .columns = in, .local_stride = in};
  return PlaceParts(kFp8Storage, {part});
}

// Rows of one pack and of more than a block keeps, whole and split ones; sizes that tiles of 128 do not fill.
TEST_P(CudaOps, Fp8Linear) {
  for (const auto& [rows, in, out] :
       {std::tuple{37, 48, 32}, std::tuple{130, 3584, 144}, std::tuple{48, 64, 45056}, std::tuple{17, 18944, 3584}}) {
    const PackedParts parts = Fp8Parts(out, in);
    for (const bool split : {false, true}) {
      const auto twice = [](const at::Tensor& of_rows) { at::Tensor(of_rows).mul_(2); };
      const SplitContraction contraction{.inputs = twice, .outputs = twice};
      Compare("fp8_linear", GetParam() == at::kFloat ? "aten" : "cublas", Tolerance(), [&] {
        const auto packed = RandomFp8(parts, out, in);
        const at::Tensor bias = Random({out});
        const SplitContraction* where = split ? &contraction : nullptr;
        return Tensors{Fp8Linear(Random({rows, in}), Fp8MatrixOf(*packed), bias, where),
                       Fp8InputGradient(Random({rows, out}), Fp8MatrixOf(*packed), where)};
      });
    }
  }
}

// Of a step of generation: tiles of 8 rows that are full and not, outputs that fill no block, chunks of 64 that end
// early, rows that are split, too long to be cast inside, or hold what is no number, which stays in its row.
TEST_P(CudaOps, Fp8FewRows) {
  for (const auto& [rows, in, out] :
       {std::tuple{1, 48, 16}, std::tuple{1, 3584, 4608}, std::tuple{1, 18944, 3584}, std::tuple{1, 32784, 48},
        std::tuple{2, 16, 48}, std::tuple{8, 3584, 144}, std::tuple{9, 1040, 80}, std::tuple{16, 3600, 3584},
        std::tuple{11, 64, 16400}, std::tuple{16, 18944, 48}}) {
    for (const bool split : {false, true}) {
      const SplitContraction contraction{.inputs = [](const at::Tensor& of_rows) { at::Tensor(of_rows).mul_(2); },
                                         .outputs = {}};
      Compare("fp8_linear", GetParam() == at::kFloat ? "aten" : "cuda", Tolerance(), [&] {
        const auto packed = RandomFp8(Fp8Parts(out, in), out, in);
        const at::Tensor x = Random({rows, in}), bias = split ? at::Tensor() : Random({out});
        x[0].mul_(1e-3);
        at::Tensor spoilt = x.clone();
        spoilt[rows - 1][in - 1] = std::numeric_limits<float>::infinity();
        const Fp8Matrix matrix = Fp8MatrixOf(*packed);
        const at::Tensor bad = Fp8Linear(spoilt, matrix, bias, nullptr);
        EXPECT_TRUE(bad[rows - 1].isnan().all().item<bool>());
        return Tensors{Fp8Linear(x, matrix, bias, split ? &contraction : nullptr), bad.narrow(0, 0, rows - 1)};
      });
    }
  }
}

// In a graph a product reads its matrix while the kernel before it runs, whose result it takes: the same bits in every
// replay.
TEST_P(CudaOps, Fp8FewRowsInAGraph) {
  if (GetParam() == at::kFloat) return;  // ATen's
  for (const int64_t rows : {1, 5, 12}) {
    for (const int64_t width : {512, 8192}) {
      const Weight norm{"norm", Random({width}), {}};
      std::vector<Fp8Matrix> matrices;
      std::vector<std::shared_ptr<PackedWeight>> kept;
      for (int i = 0; i < 6; ++i) {
        kept.push_back(RandomFp8(Fp8Parts(width, width), width, width));
        matrices.push_back(Fp8MatrixOf(*kept.back()));
      }
      const at::Tensor x = Random({rows, width});
      const auto layers = [&] {
        at::Tensor y = x;
        for (const Fp8Matrix& matrix : matrices) y = Fp8Linear(RmsNorm(y, norm, 1e-6), matrix, {}, nullptr);
        return y;
      };
      layers();  // once, before it is recorded
      at::Tensor found;
      const auto graph = Cuda::Open().bridge().Record([&] { found = layers(); });
      for (int i = 0; i < 10; ++i) {
        x.copy_(Random({rows, width}));
        const at::Tensor wanted = layers();
        graph->Replay();
        EXPECT_TRUE(at::equal(found, wanted)) << rows << " rows of " << width << ", replay " << i;
        EXPECT_GT(wanted.abs().max().item<float>(), 0);
      }
    }
  }
}

// Of a weight that is stored in bf16: cast for the one product, cast and turned for the other.
TEST_P(CudaOps, Fp8CastForEachProduct) {
  for (const auto& [rows, in, out] : {std::tuple{37, 48, 32}, std::tuple{130, 3584, 144}, std::tuple{16, 64, 4112}}) {
    for (const bool split : {false, true}) {
      const auto twice = [](const at::Tensor& of_rows) { at::Tensor(of_rows).mul_(2); };
      const SplitContraction contraction{.inputs = twice, .outputs = twice};
      Compare("fp8_linear", GetParam() == at::kFloat ? "aten" : "cublas", Tolerance(), [&] {
        Weight weight{.name = "w", .value = Random({out, in}), .gradient = {}};
        weight.cast_to_fp8 = true;
        const SplitContraction* where = split ? &contraction : nullptr;
        const Fp8Matrix matrix = Fp8MatrixOf(weight, where);
        return Tensors{Fp8Linear(Random({rows, in}), matrix, {}, where),
                       Fp8InputGradient(Random({rows, out}), Fp8MatrixAgain(weight, matrix.scales), where),
                       matrix.codes.to(at::kFloat), matrix.scales};
      });
    }
  }
}

}  // namespace
}  // namespace trireme
