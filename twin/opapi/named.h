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
