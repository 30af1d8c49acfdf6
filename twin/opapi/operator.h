// How an operator of the aclnn interface is defined: its name and a function of ATen values. The function's
// parameters determine the two C functions that programs look up by name:
//
//   int aclnnXGetWorkspaceSize(arguments…, uint64_t* workspace_size, aclOpExecutor** executor);
//   int aclnnX(void* workspace, uint64_t workspace_size, aclOpExecutor* executor, aclrtStream stream);
//
// The first copies the arguments' values (the C objects may be destroyed after the second has returned), the
// second queues the work on the stream. What an operator computes is not here.
#pragma once

#include <ATen/ScalarOps.h>
#include <ATen/core/Tensor.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "twin/opapi/objects.h"

#define TWIN_API extern "C" __attribute__((visibility("default")))

namespace twin {

// An entry in the list of available operators.
struct Registration {
  explicit Registration(const char* name);
  const char* const name;
  std::atomic<uint64_t> calls{0};
};

}  // namespace twin

struct aclOpExecutor {
  twin::Registration* operation;
  std::function<void()> run;
};

namespace twin {

inline constexpr int kNullArgument = 161001;     // ACLNN_ERR_PARAM_NULLPTR
inline constexpr int kInvalidArgument = 161002;  // ACLNN_ERR_PARAM_INVALID

struct NullArgument : std::invalid_argument {
  using std::invalid_argument::invalid_argument;
};

// The value of a C argument. `C` is its type in the interface.
template <class T>
struct Argument {  // plain numbers pass as they are; their width is part of the interface
  static_assert(std::is_arithmetic_v<T>);
  using C = T;
  static T Take(C value) { return value; }
};

template <class Object, class T>
struct Required {
  using C = const Object*;
  static const Object& Check(C object, const char* what) {
    if (object == nullptr) throw NullArgument(std::string("a ") + what + " is null");
    return *object;
  }
};

template <>
struct Argument<at::Tensor> : Required<aclTensor, at::Tensor> {
  static at::Tensor Take(C object) { return Check(object, "tensor").view; }
};

template <>
struct Argument<at::Scalar> : Required<aclScalar, at::Scalar> {
  static at::Scalar Take(C object) { return Check(object, "scalar").value; }
};

template <>
struct Argument<std::vector<int64_t>> : Required<aclIntArray, std::vector<int64_t>> {
  static std::vector<int64_t> Take(C object) { return Check(object, "list of integers").values; }
};

template <>
struct Argument<std::vector<uint8_t>> : Required<aclBoolArray, std::vector<uint8_t>> {
  static std::vector<uint8_t> Take(C object) { return Check(object, "list of booleans").values; }
};

template <>
struct Argument<std::vector<at::Tensor>> : Required<aclTensorList, std::vector<at::Tensor>> {
  static std::vector<at::Tensor> Take(C object) {
    std::vector<at::Tensor> tensors;
    for (const aclTensor* item : Check(object, "list of tensors").items) {
      tensors.push_back(item == nullptr ? at::Tensor() : item->view);
    }
    return tensors;
  }
};

template <>
struct Argument<std::vector<at::Scalar>> : Required<aclScalarList, std::vector<at::Scalar>> {
  static std::vector<at::Scalar> Take(C object) {
    std::vector<at::Scalar> scalars;
    for (const aclScalar* item : Check(object, "list of scalars").items) scalars.push_back(item->value);
    return scalars;
  }
};

template <>
struct Argument<std::string> {
  using C = const char*;
  static std::string Take(C text) { return text == nullptr ? "" : text; }
};

template <>
struct Argument<at::ScalarType> {
  using C = aclDataType;
  static at::ScalarType Take(C type) { return AtenType(type); }
};

// An argument that may be omitted (nullptr).
template <class T>
struct Argument<std::optional<T>> {
  using C = typename Argument<T>::C;
  static std::optional<T> Take(C object) {
    return object == nullptr ? std::nullopt : std::optional<T>(Argument<T>::Take(object));
  }
};

// An output whose size is known only when the operator has run. The program keeps the object until then and
// calls aclGetViewShape, so this is the object itself, not its value.
struct Resizable {
  aclTensor* object;
  void Set(const at::Tensor& values) const;
};

template <>
struct Argument<Resizable> : Required<aclTensor, Resizable> {
  static Resizable Take(C object) { return {const_cast<aclTensor*>(&Check(object, "tensor"))}; }
};

// Creates the executor of one call; an exception from `bind` becomes the interface's code, and its message is
// kept.
int MakeExecutor(Registration* operation, uint64_t* workspace_size, aclOpExecutor** executor,
                 const std::function<std::function<void()>()>& bind);

// Queues the executor's work on the stream and destroys the executor.
int Launch(void* workspace, uint64_t workspace_size, aclOpExecutor* executor, aclrtStream stream);

template <class Body, class Call = decltype(&decltype(Body::call)::operator())>
struct Operator;

template <class Body, class Lambda, class... Args>
struct Operator<Body, void (Lambda::*)(Args...) const> {
  static int Prepare(typename Argument<Args>::C... args, uint64_t* workspace_size, aclOpExecutor** executor) {
    return MakeExecutor(&Body::operation, workspace_size, executor, [&]() -> std::function<void()> {
      return [values = std::tuple<Args...>{Argument<Args>::Take(args)...}]() mutable {
        std::apply(Body::call, std::move(values));
      };
    });
  }
};

}  // namespace twin

// OP(aclnnAdd, [](Tensor self, Tensor other, Scalar alpha, Tensor out) { at::add_out(out, self, other,
// alpha); })
//
// A C function cannot derive its parameter types from a lambda, but a symbol can be resolved when it is
// looked up: both names are indirect functions (ifunc, which glibc supports on x86_64 and aarch64) that
// resolve to the templates.
#define OP(operator_name, ...)                                                                                         \
  namespace {                                                                                                          \
  struct operator_name##Body {                                                                                         \
    static inline ::twin::Registration operation{#operator_name};                                                      \
    static constexpr auto call = __VA_ARGS__;                                                                          \
  };                                                                                                                   \
  }                                                                                                                    \
  extern "C" {                                                                                                         \
  __attribute__((used)) static auto operator_name##FindPrepare() {                                                     \
    return &::twin::Operator<operator_name##Body>::Prepare;                                                            \
  }                                                                                                                    \
  __attribute__((used)) static auto operator_name##FindLaunch() { return &::twin::Launch; }                            \
  __attribute__((                                                                                                      \
      visibility("default"),                                                                                           \
      ifunc(#operator_name                                                                                             \
            "FindPrepare"))) decltype(::twin::Operator<operator_name##Body>::Prepare) operator_name##GetWorkspaceSize; \
  __attribute__((visibility("default"), ifunc(#operator_name "FindLaunch"))) decltype(::twin::Launch) operator_name;   \
  }

namespace twin {

// A number that takes part in type promotion as a Python number does.
inline at::Tensor Number(const at::Scalar& scalar) { return at::native::wrapped_scalar_tensor(scalar); }

}  // namespace twin

// Names that operator definitions use.
#define TWIN_OPERATOR_WORDS                \
  using at::Scalar;                        \
  using at::ScalarType;                    \
  using at::Tensor;                        \
  using twin::Number;                      \
  using twin::Resizable;                   \
  using Ints = std::vector<int64_t>;       \
  using Bools = std::vector<uint8_t>;      \
  using Tensors = std::vector<at::Tensor>; \
  using Scalars = std::vector<at::Scalar>; \
  template <class T>                       \
  using Optional = std::optional<T>;
