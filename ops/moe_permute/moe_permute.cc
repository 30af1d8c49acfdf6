#include "ops/moe_permute/moe_permute.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "core/base/error.h"
#include "ops/cuda/launch.h"
#include "ops/element_types.h"
#include "ops/kernel_place.h"
#include "ops/moe_permute/ascendc.h"
#include "ops/moe_permute/cpu.h"
#include "ops/operator.h"

namespace trireme {
namespace {

// The tokens' positions: [tokens · k] of those that are dispatched, and the token of each.
struct Moves {
  at::Tensor tokens, positions;

  explicit Moves(const at::Tensor& all) {
    const at::Tensor flat = all.flatten(), going = flat.ge(0).nonzero().squeeze(1);
    positions = flat.index_select(0, going);
    tokens = at::floor_divide(going, all.size(1));
  }
};

at::Tensor ReferenceSpread(const at::Tensor& x, const at::Tensor& positions, int64_t rows, bool) {
  const Moves moves(positions);
  return at::zeros({rows, x.size(1)}, x.options()).index_copy_(0, moves.positions, x.index_select(0, moves.tokens));
}

at::Tensor ReferenceSum(const at::Tensor& rows, const at::Tensor& positions, int64_t copies) {
  const Moves moves(positions);
  at::Tensor sum = at::zeros({positions.size(0), rows.size(1)}, rows.options().dtype(at::kFloat));
  for (const at::Tensor& copy : rows.chunk(copies)) {
    sum.index_add_(0, moves.tokens, copy.index_select(0, moves.positions).to(at::kFloat));
  }
  return sum.to(rows.scalar_type());
}

// The kernel needs the source of each row. A choice that is not dispatched goes after the last row.
at::Tensor KernelSpread(const at::Tensor& given, const at::Tensor& positions, int64_t rows, bool) {
  const at::Tensor x = given.contiguous();
  const at::Tensor flat = positions.flatten();
  const at::Tensor tokens = at::floor_divide(at::arange(flat.numel(), flat.options()), positions.size(1));
  const at::Tensor source =
      at::full({rows + 1}, -1, flat.options()).scatter_(0, flat.masked_fill(flat.lt(0), rows), tokens).to(at::kInt);
  const at::Tensor out = at::empty({rows, x.size(1)}, x.options());
  ascendc::GatherRows(PlaceOf(x), ElementOf(x), x.data_ptr(), source.data_ptr<int32_t>(), nullptr,
                      {.from_rows = static_cast<uint64_t>(x.size(0)),
                       .rows = static_cast<uint64_t>(rows),
                       .columns = static_cast<uint64_t>(x.size(1))},
                      out.data_ptr());
  return out;
}

at::Tensor KernelSum(const at::Tensor& given, const at::Tensor& positions, int64_t copies) {
  const at::Tensor rows = given.contiguous();
  const at::Tensor nowhere = positions.lt(0);
  std::vector<at::Tensor> terms;
  for (int64_t copy = 0; copy < copies; ++copy) {
    terms.push_back((positions + copy * (rows.size(0) / copies)).masked_fill(nowhere, -1));
  }
  const at::Tensor index = at::cat(terms, 1).to(at::kInt).contiguous();
  const at::Tensor out = at::empty({positions.size(0), rows.size(1)}, rows.options());
  ascendc::CombineRows(PlaceOf(rows), ElementOf(rows), rows.data_ptr(), index.data_ptr<int32_t>(), nullptr,
                       {.from_rows = static_cast<uint64_t>(rows.size(0)),
                        .rows = static_cast<uint64_t>(out.size(0)),
                        .columns = static_cast<uint64_t>(out.size(1)),
                        .terms = static_cast<uint64_t>(index.size(1))},
                       out.data_ptr());
  return out;
}

at::Tensor RowsLike(const at::Tensor& x, int64_t rows, bool gaps) {
  return gaps ? at::zeros({rows, x.size(1)}, x.options()) : at::empty({rows, x.size(1)}, x.options());
}

at::Tensor FastSpread(const at::Tensor& x, const at::Tensor& positions, int64_t rows, bool gaps) {
  const at::Tensor from = x.contiguous(), at_rows = positions.contiguous();
  const at::Tensor out = RowsLike(x, rows, gaps);
  const cpu::Positions where{.rows = Data<int64_t>(at_rows), .k = positions.size(1)};
  const int64_t row_bytes = x.size(1) * static_cast<int64_t>(x.element_size());
  at::parallel_for(0, x.size(0), GrainOfRows(x.size(1) * where.k), [&](int64_t begin, int64_t end) {
    cpu::SpreadRows(from.data_ptr(), row_bytes, where, {begin, end}, out.data_ptr());
  });
  return out;
}

at::Tensor FastSum(const at::Tensor& rows, const at::Tensor& positions, int64_t copies) {
  const at::Tensor from = rows.contiguous(), at_rows = positions.contiguous();
  const at::Tensor out = at::empty({positions.size(0), rows.size(1)}, rows.options());
  const cpu::Positions where{
      .rows = Data<int64_t>(at_rows), .k = positions.size(1), .copies = copies, .copy_rows = rows.size(0) / copies};
  ByType(rows, [&](auto type) {
    using T = decltype(type);
    at::parallel_for(0, out.size(0), GrainOfRows(rows.size(1) * where.k), [&](int64_t begin, int64_t end) {
      cpu::SumRows(Data<T>(from), rows.size(1), where, {begin, end}, Data<T>(out));
    });
  });
  return out;
}

at::Tensor CudaSpread(const at::Tensor& x, const at::Tensor& positions, int64_t rows, bool gaps) {
  const at::Tensor from = x.contiguous(), at_rows = positions.contiguous();
  const at::Tensor out = RowsLike(x, rows, gaps);
  CheckLaunch(CudaKernels().spread_rows({.from = from.data_ptr(),
                                         .to = out.data_ptr(),
                                         .positions = Data<int64_t>(at_rows),
                                         .tokens = x.size(0),
                                         .k = positions.size(1),
                                         .columns = x.size(1),
                                         .copies = 1,
                                         .copy_rows = rows},
                                        IsBf16(x), CudaStream()),
              "moe_permute");
  return out;
}

at::Tensor CudaSum(const at::Tensor& rows, const at::Tensor& positions, int64_t copies) {
  const at::Tensor from = rows.contiguous(), at_rows = positions.contiguous();
  const at::Tensor out = at::empty({positions.size(0), rows.size(1)}, rows.options());
  CheckLaunch(CudaKernels().sum_rows({.from = from.data_ptr(),
                                      .to = out.data_ptr(),
                                      .positions = Data<int64_t>(at_rows),
                                      .tokens = out.size(0),
                                      .k = positions.size(1),
                                      .columns = rows.size(1),
                                      .copies = copies,
                                      .copy_rows = rows.size(0) / copies},
                                     IsBf16(rows), CudaStream()),
              "moe_permute");
  return out;
}

struct PermuteCase {
  const at::Tensor& x;
  int64_t rows = 0;  // rows of the larger side
};

std::string WhyNotLoopsOfMoePermute(const PermuteCase& c) { return WhyNoLoops(c.x); }

std::string WhyNotCudaOfMoePermute(const PermuteCase& c) { return WhyNoCudaKernel(c.x); }

std::string WhyNotKernelOfMoePermute(const PermuteCase& c) {
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  return Either(WhyNoKernel(c.x), c.rows > kMost ? "more rows than fit in 32 bits" : "");
}

// Forward and back.
const ImplementationList<PermuteCase, decltype(&ReferenceSpread), decltype(&ReferenceSum)> kPermute{
    "moe_permute",
    {{"cpu", WhyNotLoopsOfMoePermute, FastSpread, FastSum},
     {"cuda", WhyNotCudaOfMoePermute, CudaSpread, CudaSum},
     {"ascendc", WhyNotKernelOfMoePermute, KernelSpread, KernelSum},
     {"aten", nullptr, ReferenceSpread, ReferenceSum}}};

}  // namespace

at::Tensor SpreadRows(const at::Tensor& x, const at::Tensor& positions, int64_t rows, bool gaps) {
  TRIREME_CHECK(x.dim() == 2 && positions.size(0) == x.size(0));
  return kPermute.Choose({x, std::max(rows, x.size(0))}).forward(x, positions, rows, gaps);
}

at::Tensor SumRows(const at::Tensor& rows, const at::Tensor& positions, int64_t copies) {
  TRIREME_CHECK(rows.dim() == 2 && rows.size(0) % copies == 0);
  return kPermute.Choose({rows, rows.size(0)}).backward(rows, positions, copies);
}

namespace {

// Two experts per token, and back.
std::vector<BenchCase> BenchPermute(const BenchSize& s) {
  const at::Tensor x = BenchInput({s.rows, s.columns}, s.type);
  const at::Tensor positions = at::randperm(2 * s.rows, at::kLong).view({s.rows, 2});
  const at::Tensor rows = SpreadRows(x, positions, 2 * s.rows);
  const double bytes = static_cast<double>(x.nbytes());
  return {{.forward_bytes = 3 * bytes,
           .run =
               [=] {
                 SpreadRows(x, positions, 2 * s.rows);
                 return BenchCase::Tensors{};
               }},
          {.forward_bytes = 3 * bytes,
           .run =
               [=] {
                 SumRows(rows, positions);
                 return BenchCase::Tensors{};
               },
           .gradient = true,
           .variant = "sum"}};
}

}  // namespace

Operator operators::moe_permute() {
  return {.name = kPermute.op(),
          .summary = "tokens sorted by expert, and summed back",
          .implementations = kPermute.names(),
          .report =
              [](const at::Tensor& like) {
                return std::vector{kPermute.Report("[any, any]", {like, 0}),
                                   kPermute.Report("[2³², any]", {like, int64_t{1} << 32})};
              },
          .bench = BenchPermute};
}

}  // namespace trireme
