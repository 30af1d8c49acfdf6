// Operators that move elements without arithmetic: indexing, gather and scatter, concatenation and splitting.
#include <ATen/ATen.h>

#include <algorithm>

#include "twin/opapi/operator.h"

TWIN_OPERATOR_WORDS

namespace {

// torch's own form of the index list. An omitted index arrives as an empty tensor; since all others have been
// broadcast to one shape, an index that selects nothing is recognised by every index being empty
// (SelectsNothing).
c10::List<std::optional<Tensor>> IndexList(const Tensors& indices) {
  c10::List<std::optional<Tensor>> list;
  for (const Tensor& index : indices) {
    const bool left_out = !index.defined() || (index.dim() == 1 && index.numel() == 0);
    list.push_back(left_out ? std::optional<Tensor>() : std::optional<Tensor>(index));
  }
  return list;
}

bool SelectsNothing(const Tensors& indices) {
  return std::all_of(indices.begin(), indices.end(),
                     [](const Tensor& index) { return !index.defined() || index.numel() == 0; });
}

void Scatter(Tensor self, int64_t dim, const Tensor& index, const Tensor& source, int64_t reduction) {
  const Tensor where = index.to(at::kLong);
  if (reduction == 0) {
    self.scatter_(dim, where, source);
  } else {
    self.scatter_(dim, where, source, reduction == 1 ? "add" : "multiply");
  }
}

void ScatterNumber(Tensor self, int64_t dim, const Tensor& index, const Scalar& value, int64_t reduction) {
  const Tensor where = index.to(at::kLong);
  if (reduction == 0) {
    self.scatter_(dim, where, value);
  } else {
    self.scatter_(dim, where, value, reduction == 1 ? "add" : "multiply");
  }
}

}  // namespace

OP(aclnnIndex, [](Tensor self, Tensors indices, Tensor out) {
  if (!SelectsNothing(indices)) out.copy_(at::index(self, IndexList(indices)));
})
OP(aclnnIndexPutImpl, [](Tensor self, Tensors indices, Tensor values, bool accumulate, bool) {
  if (SelectsNothing(indices)) return;
  self.index_put_(IndexList(indices), values.to(self.scalar_type()), accumulate);
})
OP(aclnnIndexSelect,
   [](Tensor self, int64_t dim, Tensor index, Tensor out) { at::index_select_out(out, self, dim, index); })
OP(aclnnIndexAdd, [](Tensor self, int64_t dim, Tensor index, Tensor source, Scalar alpha, Tensor out) {
  out.copy_(at::index_add(self, dim, index, source, alpha));
})
OP(aclnnIndexCopy, [](Tensor self, int64_t dim, Tensor index, Tensor source, Tensor out) {
  out.copy_(at::index_copy(self, dim, index, source));
})
OP(aclnnInplaceIndexCopy,
   [](Tensor self, int64_t dim, Tensor index, Tensor source) { self.index_copy_(dim, index, source); })
OP(aclnnIndexFill, [](Tensor self, int64_t dim, Tensor index, Scalar value, Tensor out) {
  out.copy_(at::index_fill(self, dim, index.to(at::kLong), value));
})
OP(aclnnInplaceIndexFill,
   [](Tensor self, int64_t dim, Tensor index, Scalar value) { self.index_fill_(dim, index.to(at::kLong), value); })
OP(aclnnGather,
   [](Tensor self, int64_t dim, Tensor index, Tensor out) { at::gather_out(out, self, dim, index.to(at::kLong)); })
OP(aclnnTake, [](Tensor self, Tensor index, Tensor out) { at::take_out(out, self, index.to(at::kLong)); })
OP(aclnnInplacePut, [](Tensor self, Tensor index, Tensor source, bool accumulate) {
  self.put_(index.to(at::kLong), source, accumulate);
})

OP(aclnnScatter, [](Tensor self, int64_t dim, Tensor index, Tensor source, int64_t reduction, Tensor out) {
  out.copy_(self);
  Scatter(out, dim, index, source, reduction);
})
OP(aclnnInplaceScatter, [](Tensor self, int64_t dim, Tensor index, Tensor source, int64_t reduction) {
  Scatter(self, dim, index, source, reduction);
})
OP(aclnnScatterValue, [](Tensor self, int64_t dim, Tensor index, Scalar value, int64_t reduction, Tensor out) {
  out.copy_(self);
  ScatterNumber(out, dim, index, value, reduction);
})
OP(aclnnInplaceScatterValue, [](Tensor self, int64_t dim, Tensor index, Scalar value, int64_t reduction) {
  ScatterNumber(self, dim, index, value, reduction);
})
OP(aclnnScatterAdd, [](Tensor self, int64_t dim, Tensor index, Tensor source, Tensor out) {
  if (!out.is_same(self)) out.copy_(self);
  out.scatter_add_(dim, index.to(at::kLong), source);
})

OP(aclnnInplaceMaskedFillScalar, [](Tensor self, Tensor mask, Scalar value) { self.masked_fill_(mask, value); })
OP(aclnnInplaceMaskedFillTensor, [](Tensor self, Tensor mask, Tensor value) { self.masked_fill_(mask, value); })
OP(aclnnInplaceMaskedScatter, [](Tensor self, Tensor mask, Tensor source) { self.masked_scatter_(mask, source); })
OP(aclnnMaskedSelect, [](Tensor self, Tensor mask, Resizable out) { out.Set(at::masked_select(self, mask)); })
OP(aclnnNonzero, [](Tensor self, Resizable out) { out.Set(at::nonzero(self)); })
OP(aclnnNonzeroV2, [](Tensor self, Resizable out) { out.Set(at::nonzero(self).t()); })

OP(aclnnCat, [](Tensors tensors, int64_t dim, Tensor out) { at::cat_out(out, tensors, dim); })
OP(aclnnStack, [](Tensors tensors, int64_t dim, Tensor out) { at::stack_out(out, tensors, dim); })
OP(aclnnSplitWithSize,
   [](Tensor self, Ints sizes, int64_t dim, Tensors out) { at::split_with_sizes_copy_out(out, self, sizes, dim); })
OP(aclnnRepeat, [](Tensor self, Ints repeats, Tensor out) { out.copy_(self.repeat(repeats)); })
OP(aclnnRepeatInterleave,
   [](Tensor self, Tensor repeats, int64_t, Tensor out) { out.copy_(at::repeat_interleave(self, repeats)); })
OP(aclnnRepeatInterleaveWithDim, [](Tensor self, Tensor repeats, int64_t dim, int64_t, Tensor out) {
  out.copy_(at::repeat_interleave(self, repeats, dim));
})
OP(aclnnRepeatInterleaveInt,
   [](Tensor self, int64_t repeats, int64_t, Tensor out) { out.copy_(at::repeat_interleave(self, repeats)); })
OP(aclnnRepeatInterleaveIntWithDim, [](Tensor self, int64_t repeats, int64_t dim, int64_t, Tensor out) {
  out.copy_(at::repeat_interleave(self, repeats, dim));
})
OP(aclnnFlip, [](Tensor self, Ints dims, Tensor out) { out.copy_(at::flip(self, dims)); })
OP(aclnnRoll, [](Tensor self, Ints shifts, Ints dims, Tensor out) { out.copy_(at::roll(self, shifts, dims)); })
OP(aclnnTril, [](Tensor self, int64_t diagonal, Tensor out) { at::tril_out(out, self, diagonal); })
OP(aclnnTriu, [](Tensor self, int64_t diagonal, Tensor out) { at::triu_out(out, self, diagonal); })
OP(aclnnInplaceTril, [](Tensor self, int64_t diagonal) { self.tril_(diagonal); })
OP(aclnnInplaceTriu, [](Tensor self, int64_t diagonal) { self.triu_(diagonal); })
OP(aclnnConstantPadNd,
   [](Tensor self, Ints pad, Scalar value, Tensor out) { out.copy_(at::constant_pad_nd(self, pad, value)); })
OP(aclnnIsInTensorScalar, [](Tensor elements, Scalar test, bool unique, bool invert, Tensor out) {
  out.copy_(at::isin(elements, test, unique, invert));
})
OP(aclnnIsInScalarTensor, [](Scalar element, Tensor test, bool unique, bool invert, Tensor out) {
  out.copy_(at::isin(element, test, unique, invert));
})
