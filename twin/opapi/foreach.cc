// Operators over lists of tensors, which optimizers and gradient clipping use: the plain operator applied to
// each item. A …Scalar operator takes its number as a tensor of one element, a …ScalarV2 operator as a
// scalar.
#include <ATen/ATen.h>

#include "twin/opapi/operator.h"

TWIN_OPERATOR_WORDS

#define EACH_UNARY(Name, function)                                                   \
  OP(aclnnForeach##Name, [](Tensors self, Tensors out) {                             \
    for (size_t i = 0; i < self.size(); ++i) at::function##_out(out.at(i), self[i]); \
  })

EACH_UNARY(Abs, abs)
EACH_UNARY(Acos, acos)
EACH_UNARY(Asin, asin)
EACH_UNARY(Atan, atan)
EACH_UNARY(Cos, cos)
EACH_UNARY(Cosh, cosh)
EACH_UNARY(Erf, erf)
EACH_UNARY(Erfc, erfc)
EACH_UNARY(Exp, exp)
EACH_UNARY(Expm1, expm1)
EACH_UNARY(Log, log)
EACH_UNARY(Log10, log10)
EACH_UNARY(Log1p, log1p)
EACH_UNARY(Log2, log2)
EACH_UNARY(Neg, neg)
EACH_UNARY(Reciprocal, reciprocal)
EACH_UNARY(Sigmoid, sigmoid)
EACH_UNARY(Sign, sign)
EACH_UNARY(Sin, sin)
EACH_UNARY(Sinh, sinh)
EACH_UNARY(Sqrt, sqrt)
EACH_UNARY(Tan, tan)
EACH_UNARY(Tanh, tanh)

#define EACH_WITH_NUMBER(Name, function, number_type)                                                            \
  OP(aclnnForeach##Name##ScalarV2, [](Tensors self, Scalar number, Tensors out) {                                \
    for (size_t i = 0; i < self.size(); ++i) at::function##_out(out.at(i), self[i], number_type(number));        \
  })                                                                                                             \
  OP(aclnnForeach##Name##ScalarList, [](Tensors self, Scalars numbers, Tensors out) {                            \
    for (size_t i = 0; i < self.size(); ++i) at::function##_out(out.at(i), self[i], number_type(numbers.at(i))); \
  })

EACH_WITH_NUMBER(Add, add, Number)
EACH_WITH_NUMBER(Div, div, Number)
EACH_WITH_NUMBER(Maximum, clamp_min, Scalar)
EACH_WITH_NUMBER(Minimum, clamp_max, Scalar)
EACH_WITH_NUMBER(Mul, mul, Number)
EACH_WITH_NUMBER(Pow, pow, Scalar)
EACH_WITH_NUMBER(Sub, sub, Number)
OP(aclnnForeachPowScalarAndTensor, [](Scalar self, Tensors exponent, Tensors out) {
  for (size_t i = 0; i < exponent.size(); ++i) at::pow_out(out.at(i), self, exponent[i]);
})

#define EACH_WITH_LIST(Name, function)                                                            \
  OP(aclnnForeach##Name##List, [](Tensors self, Tensors other, Tensors out) {                     \
    for (size_t i = 0; i < self.size(); ++i) at::function##_out(out.at(i), self[i], other.at(i)); \
  })

EACH_WITH_LIST(Div, div)
EACH_WITH_LIST(Maximum, maximum)
EACH_WITH_LIST(Minimum, minimum)
EACH_WITH_LIST(Mul, mul)
EACH_WITH_LIST(Pow, pow)

#define EACH_WITH_SCALED_LIST(Name, function)                                                 \
  OP(aclnnForeach##Name##ListV2, [](Tensors self, Tensors other, Scalar alpha, Tensors out) { \
    for (size_t i = 0; i < self.size(); ++i) {                                                \
      at::function##_out(out.at(i), self[i], other.at(i), alpha);                             \
    }                                                                                         \
  })

EACH_WITH_SCALED_LIST(Add, add)
EACH_WITH_SCALED_LIST(Sub, sub)

#define EACH_OF_THREE(Name, function)                                                                     \
  OP(aclnnForeach##Name##ScalarV2, [](Tensors self, Tensors a, Tensors b, Scalar value, Tensors out) {    \
    for (size_t i = 0; i < self.size(); ++i) {                                                            \
      at::function##_out(out.at(i), self[i], a.at(i), b.at(i), value);                                    \
    }                                                                                                     \
  })                                                                                                      \
  OP(aclnnForeach##Name##ScalarList, [](Tensors self, Tensors a, Tensors b, Tensor values, Tensors out) { \
    for (size_t i = 0; i < self.size(); ++i) {                                                            \
      at::function##_out(out.at(i), self[i], a.at(i), b.at(i), values[static_cast<int64_t>(i)].item());   \
    }                                                                                                     \
  })

EACH_OF_THREE(Addcdiv, addcdiv)
EACH_OF_THREE(Addcmul, addcmul)
OP(aclnnForeachLerpScalar, [](Tensors self, Tensors end, Scalar weight, Tensors out) {
  for (size_t i = 0; i < self.size(); ++i) at::lerp_out(out.at(i), self[i], end.at(i), weight);
})
OP(aclnnForeachLerpList, [](Tensors self, Tensors end, Tensors weight, Tensors out) {
  for (size_t i = 0; i < self.size(); ++i) at::lerp_out(out.at(i), self[i], end.at(i), weight.at(i));
})
OP(aclnnForeachNorm, [](Tensors self, Scalar ord, Tensors out) {
  for (size_t i = 0; i < self.size(); ++i) out.at(i).copy_(at::linalg_vector_norm(self[i], ord));
})
OP(aclnnForeachCopy, [](Tensors source, Tensors out) {
  for (size_t i = 0; i < source.size(); ++i) out.at(i).copy_(source[i]);
})
OP(aclnnForeachZeroInplace, [](Tensors self) {
  for (const Tensor& item : self) item.zero_();
})
OP(aclnnForeachNonFiniteCheckAndUnscale, [](Tensors grads, Tensor found_inf, Tensor inv_scale) {
  at::_amp_foreach_non_finite_check_and_unscale_(grads, found_inf, inv_scale);
})
OP(aclnnAmpUpdateScale,
   [](Tensor scale, Tensor growth_tracker, Tensor found_inf, double growth, double backoff, int64_t interval, Tensor,
      Tensor) { at::_amp_update_scale_(scale, growth_tracker, found_inf, growth, backoff, interval); })
OP(aclnnApplyAdamWV2,
   [](Tensor self, Tensor mean, Tensor square, Optional<Tensor> max_square, Tensor grad, Tensor steps_before,
      float rate, float beta1, float beta2, float decay, float eps, bool amsgrad, bool maximize) {
     const Tensors greatest = amsgrad ? Tensors{max_square.value()} : Tensors{};
     at::_fused_adamw_({self}, {grad}, {mean}, {square}, greatest, {steps_before + 1}, rate, beta1, beta2, decay, eps,
                       amsgrad, maximize);
   })
