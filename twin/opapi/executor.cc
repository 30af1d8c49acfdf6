// Executors: from an operator's two calls to work on a stream, and the list of available operators.
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/Tensor.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <utility>

#include "twin/acl/internal.h"
#include "twin/opapi/operator.h"
#include "twin/opapi/tensor_bytes.h"

namespace twin {
namespace {

std::vector<const Registration*>& Operators() {
  static auto* operators = new std::vector<const Registration*>;
  return *operators;
}

// Alphabetical; built after the library has been loaded, so it is complete.
const Registration* OperatorAt(size_t index) {
  static const auto* sorted = [] {
    auto* operators = new std::vector<const Registration*>(Operators());
    std::sort(operators->begin(), operators->end(),
              [](const Registration* a, const Registration* b) { return std::strcmp(a->name, b->name) < 0; });
    return operators;
  }();
  return index < sorted->size() ? (*sorted)[index] : nullptr;
}

// The largest tensor that each operator was given.
struct LargestTensors {
  std::mutex mutex;
  std::map<const Registration*, uint64_t> bytes;
};
LargestTensors& Largest() {
  static auto* largest = new LargestTensors;
  return *largest;
}

void NoteLargest(const Registration* operation, uint64_t bytes) {
  const std::lock_guard lock(Largest().mutex);
  uint64_t& most = Largest().bytes[operation];
  most = std::max(most, bytes);
}

uint64_t LargestOf(const Registration* operation) {
  const std::lock_guard lock(Largest().mutex);
  return Largest().bytes[operation];
}

thread_local uint64_t largest_since_call = 0;

int RefuseCall(int code, const char* name, const char* text) {
  SetRecentError(std::string(name) + ": " + text);
  return code;
}

// On the stream's worker. The message without libtorch's stack trace: users of the program see it.
aclError Run(const aclOpExecutor& executor) {
  at::AutoDispatchBelowADInplaceOrView no_autograd;
  try {
    executor.run();
  } catch (const c10::Error& error) {
    throw std::runtime_error(error.what_without_backtrace());
  }
  return ACL_SUCCESS;
}

}  // namespace

void NoteTensorBytes(uint64_t bytes) { largest_since_call = std::max(largest_since_call, bytes); }
uint64_t TakeLargestTensorBytes() { return std::exchange(largest_since_call, 0); }

Registration::Registration(const char* name) : name(name) { Operators().push_back(this); }

void Resizable::Set(const at::Tensor& values) const {
  // The program allocated room for the largest result; it asks for the result's actual size afterwards.
  TORCH_CHECK(values.numel() <= object->view.numel(), "the result has ", values.numel(),
              " elements but the output has ", object->view.numel());
  std::vector<int64_t> strides(values.dim(), 1);
  for (int64_t dim = values.dim() - 2; dim >= 0; --dim) {
    strides[dim] = strides[dim + 1] * std::max<int64_t>(values.size(dim + 1), 1);
  }
  object->view = object->view.as_strided(values.sizes(), strides);
  object->view.copy_(values);
}

int MakeExecutor(Registration* operation, uint64_t* workspace_size, aclOpExecutor** executor,
                 const std::function<std::function<void()>()>& bind) {
  const char* name = operation->name;
  if (workspace_size == nullptr) return RefuseCall(kNullArgument, name, "workspaceSize is null");
  if (executor == nullptr) return RefuseCall(kNullArgument, name, "executor is null");
  NoteLargest(operation, TakeLargestTensorBytes());
  try {
    *executor = new aclOpExecutor{.operation = operation, .run = bind()};
  } catch (const NullArgument& error) {
    return RefuseCall(kNullArgument, name, error.what());
  } catch (const std::exception& error) {
    return RefuseCall(kInvalidArgument, name, error.what());
  }
  *workspace_size = 0;  // ATen allocates its own scratch memory on the host
  return ACL_SUCCESS;
}

int Launch(void*, uint64_t, aclOpExecutor* executor, aclrtStream stream) {
  if (executor == nullptr) return RefuseCall(kNullArgument, "aclnn", "executor is null");
  const std::shared_ptr<aclOpExecutor> owned(executor);
  owned->operation->calls.fetch_add(1, std::memory_order_relaxed);
  return Enqueue(stream, [owned] { return Run(*owned); }, owned->operation->name);
}

}  // namespace twin

// The available operators in alphabetical order: the name at `index`, nullptr past the end.
TWIN_API const char* twinOperatorName(size_t index) {
  const twin::Registration* operation = twin::OperatorAt(index);
  return operation == nullptr ? nullptr : operation->name;
}

// How often this process has called the operator.
TWIN_API uint64_t twinOperatorCalls(size_t index) {
  const twin::Registration* operation = twin::OperatorAt(index);
  return operation == nullptr ? 0 : operation->calls.load();
}

// The bytes of the largest tensor that any of these calls was given; booleans do not count.
TWIN_API uint64_t twinOperatorLargestBytes(size_t index) {
  const twin::Registration* operation = twin::OperatorAt(index);
  return operation == nullptr ? 0 : twin::LargestOf(operation);
}
