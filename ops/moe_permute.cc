#include "ops/moe_permute.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include "core/base/error.h"
#include "ops/choose.h"
#include "ops/cpu/permute.h"

namespace trireme {
namespace {

// Where a token stands: [tokens · k] of those that go somewhere, and the token of each.
struct Moves {
  at::Tensor tokens, places;

  explicit Moves(const at::Tensor& all) {
    const at::Tensor flat = all.flatten(), going = flat.ge(0).nonzero().squeeze(1);
    places = flat.index_select(0, going);
    tokens = at::floor_divide(going, all.size(1));
  }
};

at::Tensor ReferenceSpread(const at::Tensor& x, const at::Tensor& places, int64_t rows) {
  const Moves moves(places);
  return at::zeros({rows, x.size(1)}, x.options())
      .index_copy_(0, moves.places, x.index_select(0, moves.tokens));
}

at::Tensor ReferenceSum(const at::Tensor& rows, const at::Tensor& places, int64_t copies) {
  const Moves moves(places);
  at::Tensor sum = at::zeros({places.size(0), rows.size(1)}, rows.options().dtype(at::kFloat));
  for (const at::Tensor& copy : rows.chunk(copies)) {
    sum.index_add_(0, moves.tokens, copy.index_select(0, moves.places).to(at::kFloat));
  }
  return sum.to(rows.scalar_type());
}

}  // namespace

at::Tensor SpreadRows(const at::Tensor& x, const at::Tensor& places, int64_t rows, bool gaps) {
  TRIREME_CHECK(x.dim() == 2 && places.size(0) == x.size(0));
  if (!FastOnCpu(x)) return ReferenceSpread(x, places, rows);
  const at::Tensor from = x.contiguous(), at_rows = places.contiguous();
  const at::Tensor out =
      gaps ? at::zeros({rows, x.size(1)}, x.options()) : at::empty({rows, x.size(1)}, x.options());
  const cpu::Places where{.rows = Data<int64_t>(at_rows), .k = places.size(1)};
  const int64_t row_bytes = x.size(1) * static_cast<int64_t>(x.element_size());
  at::parallel_for(0, x.size(0), GrainOfRows(x.size(1) * where.k), [&](int64_t begin, int64_t end) {
    cpu::SpreadRows(from.data_ptr(), row_bytes, where, {begin, end}, out.data_ptr());
  });
  return out;
}

at::Tensor SumRows(const at::Tensor& rows, const at::Tensor& places, int64_t copies) {
  TRIREME_CHECK(rows.dim() == 2 && rows.size(0) % copies == 0);
  if (!FastOnCpu(rows)) return ReferenceSum(rows, places, copies);
  const at::Tensor from = rows.contiguous(), at_rows = places.contiguous();
  const at::Tensor out = at::empty({places.size(0), rows.size(1)}, rows.options());
  const cpu::Places where{.rows = Data<int64_t>(at_rows),
                          .k = places.size(1),
                          .copies = copies,
                          .copy_rows = rows.size(0) / copies};
  ByType(rows, [&](auto type) {
    using T = decltype(type);
    at::parallel_for(0, out.size(0), GrainOfRows(rows.size(1) * where.k), [&](int64_t begin, int64_t end) {
      cpu::SumRows(Data<T>(from), rows.size(1), where, {begin, end}, Data<T>(out));
    });
  });
  return out;
}

}  // namespace trireme
