// Elementwise operators: one line each, or one line for a family that the interface spells out in many names.
// Argument lists are those with which the torch_npu 2.7.1 wheel calls them.
#include <ATen/ATen.h>

#include "twin/opapi/operator.h"

TWIN_OPERATOR_WORDS

namespace {

std::optional<std::string_view> Rounding(int64_t mode) {
  if (mode == 1) return "trunc";
  if (mode == 2) return "floor";
  return std::nullopt;
}

}  // namespace

#define UNARY(Name, function) OP(aclnn##Name, [](Tensor self, Tensor out) { at::function##_out(out, self); })
#define UNARY_BOTH(Name, function) \
  UNARY(Name, function) OP(aclnnInplace##Name, [](Tensor self) { at::function##_out(self, self); })

UNARY(Abs, abs)
UNARY(BitwiseNot, bitwise_not)
UNARY(IsNegInf, isneginf)
UNARY(IsPosInf, isposinf)
UNARY(Neg, neg)
UNARY(Sign, sign)
UNARY(Signbit, signbit)
UNARY(Silu, silu)
UNARY_BOTH(Acos, acos)
UNARY_BOTH(Acosh, acosh)
UNARY_BOTH(Asin, asin)
UNARY_BOTH(Asinh, asinh)
UNARY_BOTH(Atan, atan)
UNARY_BOTH(Atanh, atanh)
UNARY_BOTH(Ceil, ceil)
UNARY_BOTH(Cos, cos)
UNARY_BOTH(Cosh, cosh)
UNARY_BOTH(Erf, erf)
UNARY_BOTH(Erfc, erfc)
UNARY_BOTH(Erfinv, erfinv)
UNARY_BOTH(Exp, exp)
UNARY_BOTH(Exp2, exp2)
UNARY_BOTH(Expm1, expm1)
UNARY_BOTH(Floor, floor)
UNARY_BOTH(Frac, frac)
UNARY_BOTH(Hardsigmoid, hardsigmoid)
UNARY_BOTH(Hardswish, hardswish)
UNARY_BOTH(Log, log)
UNARY_BOTH(Log10, log10)
UNARY_BOTH(Log1p, log1p)
UNARY_BOTH(Log2, log2)
UNARY_BOTH(LogicalNot, logical_not)
UNARY_BOTH(Mish, mish)
UNARY_BOTH(Reciprocal, reciprocal)
UNARY_BOTH(Relu, relu)
UNARY_BOTH(Round, round)
UNARY_BOTH(Rsqrt, rsqrt)
UNARY_BOTH(Sigmoid, sigmoid)
UNARY_BOTH(Sin, sin)
UNARY_BOTH(Sinc, sinc)
UNARY_BOTH(Sinh, sinh)
UNARY_BOTH(Sqrt, sqrt)
UNARY_BOTH(Tan, tan)
UNARY_BOTH(Tanh, tanh)
UNARY_BOTH(Trunc, trunc)
OP(aclnnIsFinite, [](Tensor self, Tensor out) { out.copy_(at::isfinite(self)); })
OP(aclnnRoundDecimals, [](Tensor self, int64_t decimals, Tensor out) { at::round_out(out, self, decimals); })
OP(aclnnInplaceRoundDecimals, [](Tensor self, int64_t decimals) { self.round_(decimals); })
OP(aclnnNanToNum, [](Tensor self, float nan, float posinf, float neginf, Tensor out) {
  at::nan_to_num_out(out, self, nan, posinf, neginf);
})
OP(aclnnInplaceNanToNum,
   [](Tensor self, float nan, float posinf, float neginf) { self.nan_to_num_(nan, posinf, neginf); })

// name: tensor ∘ tensor · names: tensor ∘ number · each also in place
#define BINARY(Tensors_, Numbers_, function)                                                                       \
  OP(aclnn##Tensors_, [](Tensor self, Tensor other, Tensor out) { at::function##_out(out, self, other); })         \
  OP(aclnn##Numbers_, [](Tensor self, Scalar other, Tensor out) { at::function##_out(out, self, Number(other)); }) \
  OP(aclnnInplace##Tensors_, [](Tensor self, Tensor other) { at::function##_out(self, self, other); })             \
  OP(aclnnInplace##Numbers_, [](Tensor self, Scalar other) { at::function##_out(self, self, Number(other)); })

BINARY(BitwiseAndTensor, BitwiseAndScalar, bitwise_and)
BINARY(BitwiseOrTensor, BitwiseOrScalar, bitwise_or)
BINARY(BitwiseXorTensor, BitwiseXorScalar, bitwise_xor)
BINARY(Div, Divs, div)
BINARY(EqTensor, EqScalar, eq)
BINARY(FloorDivide, FloorDivides, floor_divide)
BINARY(FmodTensor, FmodScalar, fmod)
BINARY(GeTensor, GeScalar, ge)
BINARY(GtTensor, GtScalar, gt)
BINARY(LeTensor, LeScalar, le)
BINARY(LtTensor, LtScalar, lt)
BINARY(Mul, Muls, mul)
BINARY(NeTensor, NeScalar, ne)
BINARY(PowTensorTensor, PowTensorScalar, pow)
BINARY(RemainderTensorTensor, RemainderTensorScalar, remainder)

// The same with a multiplier for the second operand.
#define SCALED(Tensors_, Numbers_, function)                                                                           \
  OP(aclnn##Tensors_,                                                                                                  \
     [](Tensor self, Tensor other, Scalar alpha, Tensor out) { at::function##_out(out, self, other, alpha); })         \
  OP(aclnn##Numbers_,                                                                                                  \
     [](Tensor self, Scalar other, Scalar alpha, Tensor out) { at::function##_out(out, self, Number(other), alpha); }) \
  OP(aclnnInplace##Tensors_,                                                                                           \
     [](Tensor self, Tensor other, Scalar alpha) { at::function##_out(self, self, other, alpha); })                    \
  OP(aclnnInplace##Numbers_,                                                                                           \
     [](Tensor self, Scalar other, Scalar alpha) { at::function##_out(self, self, Number(other), alpha); })

SCALED(Add, Adds, add)
SCALED(Sub, Subs, sub)
OP(aclnnAddV3,
   [](Scalar self, Tensor other, Scalar alpha, Tensor out) { at::add_out(out, Number(self), other, alpha); })
OP(aclnnRsub, [](Tensor self, Tensor other, Scalar alpha, Tensor out) { at::sub_out(out, other, self, alpha); })
OP(aclnnRsubs,
   [](Tensor self, Scalar other, Scalar alpha, Tensor out) { at::sub_out(out, Number(other), self, alpha); })
OP(aclnnPowScalarTensor, [](Scalar self, Tensor exponent, Tensor out) { at::pow_out(out, self, exponent); })
OP(aclnnRemainderScalarTensor,
   [](Scalar self, Tensor other, Tensor out) { at::remainder_out(out, Number(self), other); })
OP(aclnnDivMod,
   [](Tensor self, Tensor other, int64_t mode, Tensor out) { at::div_out(out, self, other, Rounding(mode)); })
OP(aclnnDivMods,
   [](Tensor self, Scalar other, int64_t mode, Tensor out) { at::div_out(out, self, Number(other), Rounding(mode)); })
OP(aclnnInplaceDivMod, [](Tensor self, Tensor other, int64_t mode) { at::div_out(self, self, other, Rounding(mode)); })
OP(aclnnInplaceDivMods,
   [](Tensor self, Scalar other, int64_t mode) { at::div_out(self, self, Number(other), Rounding(mode)); })

#define TWO_TENSORS(Name, function) \
  OP(aclnn##Name, [](Tensor self, Tensor other, Tensor out) { at::function##_out(out, self, other); })

TWO_TENSORS(Atan2, atan2)
TWO_TENSORS(Gcd, gcd)
TWO_TENSORS(LogAddExp, logaddexp)
TWO_TENSORS(LogAddExp2, logaddexp2)
TWO_TENSORS(LogicalAnd, logical_and)
TWO_TENSORS(LogicalOr, logical_or)
TWO_TENSORS(LogicalXor, logical_xor)
TWO_TENSORS(Maximum, maximum)
TWO_TENSORS(Minimum, minimum)
TWO_TENSORS(XLogYTensor, xlogy)
OP(aclnnInplaceAtan2, [](Tensor self, Tensor other) { self.atan2_(other); })
OP(aclnnInplaceLogicalAnd, [](Tensor self, Tensor other) { self.logical_and_(other); })
OP(aclnnInplaceLogicalOr, [](Tensor self, Tensor other) { self.logical_or_(other); })
OP(aclnnXLogYScalarOther, [](Tensor self, Scalar other, Tensor out) { at::xlogy_out(out, self, other); })
OP(aclnnXLogYScalarSelf, [](Scalar self, Tensor other, Tensor out) { at::xlogy_out(out, self, other); })
OP(aclnnInplaceXLogYScalarOther, [](Tensor self, Scalar other) { self.xlogy_(other); })
OP(aclnnIsClose, [](Tensor self, Tensor other, double rtol, double atol, bool equal_nan, Tensor out) {
  out.copy_(at::isclose(self, other, rtol, atol, equal_nan));
})
OP(aclnnEqual, [](Tensor self, Tensor other, Tensor out) { out.fill_(at::equal(self, other)); })

OP(aclnnAddcmul,
   [](Tensor self, Tensor a, Tensor b, Scalar value, Tensor out) { at::addcmul_out(out, self, a, b, value); })
OP(aclnnAddcdiv,
   [](Tensor self, Tensor a, Tensor b, Scalar value, Tensor out) { at::addcdiv_out(out, self, a, b, value); })
OP(aclnnInplaceAddcmul, [](Tensor self, Tensor a, Tensor b, Scalar value) { self.addcmul_(a, b, value); })
OP(aclnnInplaceAddcdiv, [](Tensor self, Tensor a, Tensor b, Scalar value) { self.addcdiv_(a, b, value); })
OP(aclnnLerp, [](Tensor self, Tensor end, Tensor weight, Tensor out) { at::lerp_out(out, self, end, weight); })
OP(aclnnLerps, [](Tensor self, Tensor end, Scalar weight, Tensor out) { at::lerp_out(out, self, end, weight); })
OP(aclnnInplaceLerp, [](Tensor self, Tensor end, Tensor weight) { self.lerp_(end, weight); })
OP(aclnnInplaceLerps, [](Tensor self, Tensor end, Scalar weight) { self.lerp_(end, weight); })

OP(aclnnClamp,
   [](Tensor self, Optional<Scalar> min, Optional<Scalar> max, Tensor out) { at::clamp_out(out, self, min, max); })
OP(aclnnClampTensor,
   [](Tensor self, Optional<Tensor> min, Optional<Tensor> max, Tensor out) { at::clamp_out(out, self, min, max); })
OP(aclnnClampMin, [](Tensor self, Scalar min, Tensor out) { at::clamp_min_out(out, self, min); })
OP(aclnnClampMax, [](Tensor self, Scalar max, Tensor out) { at::clamp_max_out(out, self, max); })
OP(aclnnClampMinTensor, [](Tensor self, Tensor min, Tensor out) { at::clamp_min_out(out, self, min); })
OP(aclnnClampMaxTensor, [](Tensor self, Tensor max, Tensor out) { at::clamp_max_out(out, self, max); })
OP(aclnnInplaceClampMax, [](Tensor self, Scalar max) { self.clamp_max_(max); })
OP(aclnnInplaceClampMinTensor, [](Tensor self, Tensor min) { self.clamp_min_(min); })
OP(aclnnInplaceClampMaxTensor, [](Tensor self, Tensor max) { self.clamp_max_(max); })
OP(aclnnSWhere,
   [](Tensor condition, Tensor self, Tensor other, Tensor out) { at::where_out(out, condition, self, other); })
