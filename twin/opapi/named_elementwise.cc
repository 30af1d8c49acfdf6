// Elementwise operators that the torch_npu wheel requests by their older names: those on a tensor in an
// internal format, as the result of a GRU or of a convolution in fp16 is by the wheel's default. Computed in
// fp32 where the tensors are narrower, and rounded once. As aclnn functions they are in elementwise.cc.
#include "twin/opapi/named.h"

namespace twin::elementwise_by_name {
namespace {

using at::Tensor;

template <auto function>
void UnaryNamed(const NamedCall& call) {
  Put(call, 0, function(WideView(call.inputs.at(0))));
}
template <auto function>
void BinaryNamed(const NamedCall& call) {
  Put(call, 0, function(WideView(call.inputs.at(0)), WideView(call.inputs.at(1))));
}
template <auto function>
struct Unary : Named {
  explicit Unary(const char* name) : Named(name, &RunNamed<UnaryNamed<function>>) {}
};
template <auto function>
struct Binary : Named {
  explicit Binary(const char* name) : Named(name, &RunNamed<BinaryNamed<function>>) {}
};
using T = const Tensor&;

const Unary<[](T x) { return x.relu(); }> relu("Relu");
const Unary<[](T x) { return x.sigmoid(); }> sigmoid("Sigmoid");
const Unary<[](T x) { return x.tanh(); }> tanh_("Tanh");
const Unary<[](T x) { return at::gelu(x, "tanh"); }> gelu("Gelu");
const Unary<[](T x) { return x.exp(); }> exp_("Exp");
const Unary<[](T x) { return x.log(); }> log_("Log");
const Unary<[](T x) { return x.abs(); }> abs_("Abs");
const Unary<[](T x) { return x.neg(); }> neg("Neg");
const Unary<[](T x) { return x.sign(); }> sign("Sign");
const Unary<[](T x) { return x.sqrt(); }> sqrt_("Sqrt");
const Unary<[](T x) { return x.rsqrt(); }> rsqrt("Rsqrt");
const Unary<[](T x) { return x.square(); }> square("Square");
const Unary<[](T x) { return x.reciprocal(); }> reciprocal("Reciprocal");
const Unary<[](T x) { return at::zeros_like(x); }> zeros_like("ZerosLike");
const Unary<[](T x) { return at::ones_like(x); }> ones_like("OnesLike");
const Unary<[](T x) { return x; }> cast("Cast");  // to the output's type
const Unary<[](T x) { return x.logical_not(); }> logical_not("LogicalNot");

const Binary<[](T a, T b) { return a + b; }> add("Add");
const Binary<[](T a, T b) { return a - b; }> sub("Sub");
const Binary<[](T a, T b) { return a * b; }> mul("Mul");
const Binary<[](T a, T b) { return a / b; }> real_div("RealDiv");
const Binary<[](T a, T b) { return at::maximum(a, b); }> maximum("Maximum");
const Binary<[](T a, T b) { return at::minimum(a, b); }> minimum("Minimum");
const Binary<[](T a, T b) { return at::pow(a, b); }> pow_("Pow");
const Binary<[](T a, T b) { return a.gt(b); }> greater("Greater");
const Binary<[](T a, T b) { return a.ge(b); }> greater_equal("GreaterEqual");
const Binary<[](T a, T b) { return a.lt(b); }> less("Less");
const Binary<[](T a, T b) { return a.le(b); }> less_equal("LessEqual");
const Binary<[](T a, T b) { return a.eq(b); }> equal("Equal");
const Binary<[](T a, T b) { return a.ne(b); }> not_equal("NotEqual");

// Gradients: of the output and of the input or the output's value, in the order of their definitions.
const Binary<[](T dy, T x) { return at::where(x > 0, dy, at::zeros_like(dy)); }> relu_grad("ReluGrad");
const Binary<[](T y, T dy) { return at::sigmoid_backward(dy, y); }> sigmoid_grad("SigmoidGrad");
const Binary<[](T y, T dy) { return at::tanh_backward(dy, y); }> tanh_grad("TanhGrad");
const Binary<[](T dy, T x) { return at::gelu_backward(dy, x, "tanh"); }> gelu_grad("GeluGrad");
const Binary<[](T dy, T x) { return at::silu_backward(dy, x); }> swish_grad("SwishGrad"), silu_grad("SiluGrad");

void Swish(const NamedCall& call) {
  const Tensor x = WideView(call.inputs.at(0));
  Put(call, 0, x * (x * AttributeOr(call, "scale", 1.0f)).sigmoid());
}
const Named swish("Swish", &RunNamed<Swish>);

float NegativeSlope(const NamedCall& call) { return AttributeOr(call, "negative_slope", 0.0f); }
void LeakyRelu(const NamedCall& call) {
  Put(call, 0, at::leaky_relu(WideView(call.inputs.at(0)), NegativeSlope(call)));
}
const Named leaky_relu("LeakyRelu", &RunNamed<LeakyRelu>);
void LeakyReluGrad(const NamedCall& call) {
  Put(call, 0,
      at::leaky_relu_backward(WideView(call.inputs.at(0)), WideView(call.inputs.at(1)), NegativeSlope(call), false));
}
const Named leaky_relu_grad("LeakyReluGrad", &RunNamed<LeakyReluGrad>);

// a + alpha * b
void AxpyV2(const NamedCall& call) {
  Put(call, 0, WideView(call.inputs.at(0)) + WideView(call.inputs.at(1)) * WideView(call.inputs.at(2)));
}
const Named axpy_v2("AxpyV2", &RunNamed<AxpyV2>);

void Clip(const NamedCall& call) {
  Put(call, 0, at::clamp(WideView(call.inputs.at(0)), WideView(call.inputs.at(1)), WideView(call.inputs.at(2))));
}
const Named clip("ClipByValueV2", &RunNamed<Clip>);

void Select(const NamedCall& call) {
  Put(call, 0,
      at::where(View(call.inputs.at(0)).to(at::kBool), WideView(call.inputs.at(1)), WideView(call.inputs.at(2))));
}
const Named select("Select", &RunNamed<Select>), select_v2("SelectV2", &RunNamed<Select>);

int64_t ReductionOf(const NamedCall& call) {
  const auto name = AttributeOr(call, "reduction", std::string("mean"));
  return name == "none" ? at::Reduction::None : name == "sum" ? at::Reduction::Sum : at::Reduction::Mean;
}
void MseLoss(const NamedCall& call) {
  Put(call, 0, at::mse_loss(WideView(call.inputs.at(0)), WideView(call.inputs.at(1)), ReductionOf(call)));
}
const Named mse_loss("MseLoss", &RunNamed<MseLoss>);
void MseLossGrad(const NamedCall& call) {  // of both inputs and the loss's gradient
  Put(call, 0,
      at::mse_loss_backward(WideView(call.inputs.at(2)), WideView(call.inputs.at(0)), WideView(call.inputs.at(1)),
                            ReductionOf(call)));
}
const Named mse_loss_grad("MseLossGrad", &RunNamed<MseLossGrad>);

// The shape is the output's.
void Fill(const NamedCall& call) {
  Put(call, 0, WideView(call.inputs.at(1)).reshape(at::IntArrayRef{}).expand(call.outputs.at(0).dims));
}
const Named fill("Fill", &RunNamed<Fill>);

}  // namespace
}  // namespace twin::elementwise_by_name
