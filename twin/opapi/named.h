// How an operator that is looked up by name is defined: a function of the call, registered when the library
// is loaded. What an operator computes is not here.
#pragma once

#include <ATen/ATen.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/util/Exception.h>

#include <stdexcept>

#include "twin/acl/named_operators.h"
#include "twin/opapi/objects.h"

namespace twin {

// A tensor of the call, for reading or writing.
inline at::Tensor View(const NamedTensor& tensor) {
  return at::from_blob(tensor.data, tensor.dims, at::TensorOptions().dtype(AtenType(tensor.type)));
}

template <typename T>
T Attribute(const NamedCall& call, const char* name) {
  const auto found = call.attributes.find(name);
  TORCH_CHECK(found != call.attributes.end(), "the attribute ", name, " is missing");
  return std::get<T>(found->second);
}

template <typename T>
T AttributeOr(const NamedCall& call, const char* name, T otherwise) {
  return call.attributes.contains(name) ? Attribute<T>(call, name) : otherwise;
}

// For computing with: in fp32 where the tensor is narrower.
inline at::Tensor WideView(const NamedTensor& tensor) {
  const at::Tensor view = View(tensor);
  return at::isReducedFloatingType(view.scalar_type()) ? view.to(at::kFloat) : view;
}
// An argument that is a list: axes, a shape.
inline std::vector<int64_t> ListOf(const NamedTensor& tensor) {
  const at::Tensor numbers = View(tensor).to(at::kLong).contiguous().flatten();
  return {numbers.data_ptr<int64_t>(), numbers.data_ptr<int64_t>() + numbers.numel()};
}
inline bool IsGiven(const NamedCall& call, size_t input) {
  return input < call.inputs.size() && call.inputs[input].data != nullptr;
}
// Writes an output: broadcast, or the same elements in another shape, rounded to the output's type.
inline void Put(const NamedCall& call, size_t output, const at::Tensor& values) {
  const at::Tensor out = View(call.outputs.at(output));
  out.copy_(values.numel() == out.numel() ? values.reshape(out.sizes()) : values);
}

template <void (*compute)(const NamedCall&)>
void RunNamed(const NamedCall& call) {
  at::AutoDispatchBelowADInplaceOrView no_autograd;
  try {
    compute(call);
  } catch (const c10::Error& error) {  // without libtorch's stack trace
    throw std::runtime_error(error.what_without_backtrace());
  }
}

struct Named {
  Named(const char* name, NamedOperator run) { AddNamedOperator(name, run); }
};

}  // namespace twin
