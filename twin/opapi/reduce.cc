// Reductions, scans, sorting. An empty list of dims reduces over all dims, as in ATen.
#include <ATen/ATen.h>

#include "twin/opapi/operator.h"

TWIN_OPERATOR_WORDS

OP(aclnnReduceSum, [](Tensor self, Ints dims, bool keepdim, ScalarType type, Tensor out) {
  at::sum_out(out, self, dims, keepdim, type);
})
OP(aclnnReduceNansum, [](Tensor self, Ints dims, bool keepdim, ScalarType type, Tensor out) {
  at::nansum_out(out, self, dims, keepdim, type);
})
OP(aclnnMean, [](Tensor self, Ints dims, bool keepdim, ScalarType type, Tensor out) {
  at::mean_out(out, self, dims, keepdim, type);
})
OP(aclnnProd, [](Tensor self, ScalarType type, Tensor out) { out.copy_(at::prod(self, type)); })
OP(aclnnProdDim, [](Tensor self, int64_t dim, bool keepdim, ScalarType type, Tensor out) {
  at::prod_out(out, self, dim, keepdim, type);
})
OP(aclnnAll, [](Tensor self, Ints dims, bool keepdim, Tensor out) { at::all_out(out, self, dims, keepdim); })
OP(aclnnAny, [](Tensor self, Ints dims, bool keepdim, Tensor out) { at::any_out(out, self, dims, keepdim); })
OP(aclnnAmax, [](Tensor self, Ints dims, bool keepdim, Tensor out) { at::amax_out(out, self, dims, keepdim); })
OP(aclnnAmin, [](Tensor self, Ints dims, bool keepdim, Tensor out) { at::amin_out(out, self, dims, keepdim); })
OP(aclnnAminmax, [](Tensor self, Ints dims, bool keepdim, Tensor min, Tensor max) {
  at::amin_out(min, self, dims, keepdim);
  at::amax_out(max, self, dims, keepdim);
})
OP(aclnnAminmaxAll, [](Tensor self, Tensor min, Tensor max) {
  at::amin_out(min, self);
  at::amax_out(max, self);
})
OP(aclnnAminmaxDim, [](Tensor self, int64_t dim, bool keepdim, Tensor min, Tensor max) {
  at::amin_out(min, self, dim, keepdim);
  at::amax_out(max, self, dim, keepdim);
})
OP(aclnnMax, [](Tensor self, Tensor out) { out.copy_(at::max(self)); })
OP(aclnnMin, [](Tensor self, Tensor out) { out.copy_(at::min(self)); })
OP(aclnnMaxDim, [](Tensor self, int64_t dim, bool keepdim, Tensor out, Tensor indices) {
  const auto [values, where] = at::max(self, dim, keepdim);
  out.copy_(values);
  indices.copy_(where);
})
OP(aclnnMinDim, [](Tensor self, int64_t dim, bool keepdim, Tensor out, Tensor indices) {
  const auto [values, where] = at::min(self, dim, keepdim);
  out.copy_(values);
  indices.copy_(where);
})
OP(aclnnMedian, [](Tensor self, Tensor out) { out.copy_(at::median(self)); })
OP(aclnnMedianDim, [](Tensor self, int64_t dim, bool keepdim, Tensor values, Tensor indices) {
  at::median_out(values, indices, self, dim, keepdim);
})
OP(aclnnKthvalue, [](Tensor self, int64_t k, int64_t dim, bool keepdim, Tensor values, Tensor indices) {
  at::kthvalue_out(values, indices, self, k, dim, keepdim);
})
OP(aclnnArgMax, [](Tensor self, int64_t dim, bool keepdim, Tensor out) { out.copy_(at::argmax(self, dim, keepdim)); })
OP(aclnnArgMin, [](Tensor self, int64_t dim, bool keepdim, Tensor out) { out.copy_(at::argmin(self, dim, keepdim)); })
OP(aclnnNorm,
   [](Tensor self, Scalar p, Ints dims, bool keepdim, Tensor out) { out.copy_(at::norm(self, p, dims, keepdim)); })
OP(aclnnLinalgVectorNorm, [](Tensor self, Scalar ord, Ints dims, bool keepdim, ScalarType type, Tensor out) {
  out.copy_(at::linalg_vector_norm(self, ord, dims.empty() ? at::OptionalIntArrayRef() : dims, keepdim, type));
})
OP(aclnnLogSumExp,
   [](Tensor self, Ints dims, bool keepdim, Tensor out) { at::logsumexp_out(out, self, dims, keepdim); })
OP(aclnnVarCorrection, [](Tensor self, Ints dims, int64_t correction, bool keepdim, Tensor out) {
  at::var_out(out, self, dims, Scalar(correction), keepdim);
})
OP(aclnnStd, [](Tensor self, Ints dims, int64_t correction, bool keepdim, Tensor out) {
  at::std_out(out, self, dims, Scalar(correction), keepdim);
})
OP(aclnnVarMean, [](Tensor self, Ints dims, int64_t correction, bool keepdim, Tensor var, Tensor mean) {
  const auto [found_var, found_mean] = at::var_mean(self, dims, Scalar(correction), keepdim);
  var.copy_(found_var);
  mean.copy_(found_mean);
})
OP(aclnnStdMeanCorrection, [](Tensor self, Ints dims, int64_t correction, bool keepdim, Tensor std, Tensor mean) {
  const auto [found_std, found_mean] = at::std_mean(self, dims, Scalar(correction), keepdim);
  std.copy_(found_std);
  mean.copy_(found_mean);
})
OP(aclnnTrace, [](Tensor self, Tensor out) { out.copy_(at::trace(self)); })
OP(aclnnBincount, [](Tensor self, Optional<Tensor> weights, int64_t min_length, Tensor out) {
  out.copy_(at::bincount(self, weights, min_length));
})
OP(aclnnHistc, [](Tensor self, int64_t bins, Scalar min, Scalar max, Tensor out) {
  out.copy_(at::histc(self.to(at::kFloat), bins, min, max));
})

OP(aclnnCumsum, [](Tensor self, int64_t dim, ScalarType type, Tensor out) { at::cumsum_out(out, self, dim, type); })
OP(aclnnCumprod,
   [](Tensor self, Scalar dim, ScalarType type, Tensor out) { at::cumprod_out(out, self, dim.toLong(), type); })
OP(aclnnCummax, [](Tensor self, int64_t dim, Tensor values, Tensor indices) {
  const auto [found, where] = at::cummax(self, dim);
  values.copy_(found);
  indices.copy_(where);
})
OP(aclnnCummin, [](Tensor self, int64_t dim, Tensor values, Tensor indices) {
  const auto [found, where] = at::cummin(self, dim);
  values.copy_(found);
  indices.copy_(where);
})

OP(aclnnSort, [](Tensor self, bool stable, int64_t dim, bool descending, Tensor values, Tensor indices) {
  at::sort_out(values, indices, self, stable, dim, descending);
})
OP(aclnnTopk, [](Tensor self, int64_t k, int64_t dim, bool largest, bool sorted, Tensor values, Tensor indices) {
  at::topk_out(values, indices, self, k, dim, largest, sorted);
})
OP(aclnnSearchSorted, [](Tensor sequence, Tensor self, bool int32, bool right, Optional<Tensor> sorter, Tensor out) {
  at::searchsorted_out(out, sequence, self, int32, right, std::nullopt, sorter);
})
OP(aclnnSearchSorteds, [](Tensor sequence, Scalar self, bool int32, bool right, Optional<Tensor> sorter, Tensor out) {
  out.copy_(at::searchsorted(sequence, self, int32, right, std::nullopt, sorter));
})
OP(aclnnUnique, [](Tensor self, bool sorted, bool inverse, Resizable values, Tensor inverse_out) {
  const auto [found, back] = at::_unique(self, sorted, inverse);
  values.Set(found);
  if (inverse) inverse_out.copy_(back);
})
OP(aclnnUnique2, [](Tensor self, bool sorted, bool inverse, bool counts, Resizable values, Resizable inverse_out,
                    Resizable counts_out) {
  const auto [found, back, how_many] = at::_unique2(self, sorted, inverse, counts);
  values.Set(found);
  if (inverse) inverse_out.Set(back);
  if (counts) counts_out.Set(how_many);
})
