// Operators by name: those that another library registered run on their stream. The twin compiles none, and
// reports which one was requested; the stream it was meant for fails as well.
#include <map>
#include <memory>
#include <mutex>

#include "acl/acl.h"
#include "acl/acl_op_compiler.h"
#include "twin/acl/named_operators.h"
#include "twin/acl/op_objects.h"
#include "twin/acl/runtime/error.h"
#include "twin/acl/runtime/runtime.h"

using twin::Fail;
using twin::FailNull;
using twin::Text;

namespace {

aclError SetAttribute(const char* function, aclopAttr* attr, const char* name, twin::AttributeValue value) {
  if (attr == nullptr) return FailNull(function, "attr");
  if (name == nullptr) return FailNull(function, "attrName");
  attr->values.insert_or_assign(name, std::move(value));
  return ACL_SUCCESS;
}

template <class Stored, class Given>
aclError SetList(const char* function, aclopAttr* attr, const char* name, int count, const Given* values) {
  if (count < 0 || (count > 0 && values == nullptr)) {
    return Fail(ACL_ERROR_INVALID_PARAM, function, Text(count, " values at ", static_cast<const void*>(values)));
  }
  return SetAttribute(function, attr, name, std::vector<Stored>(values, values + count));
}

aclError NotFound(const char* function, const char* op_type) {
  TWIN_TRY(twin::RequireInit(function));
  if (op_type == nullptr) return FailNull(function, "opType");
  return Fail(ACL_ERROR_OP_NOT_FOUND, function,
              Text("the CANN twin has no operator '", op_type,
                   "': it implements only the aclnn operators that its libopapi lists. torch_npu falls back "
                   "to this call when "
                   "the aclnn operator it looked for is not in that list, or after "
                   "torch.npu.set_compile_mode(jit_compile=True)"));
}

// A caller that ignores the error and continues must not mistake uncomputed memory for a result: the error
// also becomes the stream's, after what was queued before it, and sticks. torch_npu's task queue, for
// example, drops what follows a failed operator but copies from the device all the same.
aclError Refuse(const char* function, const char* op_type, aclrtStream handle) {
  if (const auto stream = twin::FindStream(handle); stream != nullptr && op_type != nullptr) {
    stream->Enqueue([function, name = std::string(op_type)] { return NotFound(function, name.c_str()); }, function);
  }
  return NotFound(function, op_type);
}

// An argument on the host (axes, a shape, a scalar) may be gone when the operator runs.
std::shared_ptr<const std::vector<std::byte>> CopyFromHost(const aclTensorDesc& desc, const aclDataBuffer& buffer) {
  if (!desc.constant.empty()) return std::make_shared<const std::vector<std::byte>>(desc.constant);
  if (desc.placement == ACL_MEMTYPE_DEVICE || buffer.data == nullptr) return nullptr;
  const auto* begin = static_cast<const std::byte*>(buffer.data);
  return std::make_shared<const std::vector<std::byte>>(begin, begin + buffer.bytes);
}

std::vector<twin::NamedTensor> Tensors(int count, const aclTensorDesc* const descs[],
                                       const aclDataBuffer* const buffers[]) {
  std::vector<twin::NamedTensor> tensors;
  for (int i = 0; i < count; ++i) {
    if (descs[i] == nullptr || buffers[i] == nullptr) {
      tensors.emplace_back();
    } else {
      auto copied = CopyFromHost(*descs[i], *buffers[i]);
      void* data = copied == nullptr ? buffers[i]->data : const_cast<std::byte*>(copied->data());
      tensors.push_back({descs[i]->type, descs[i]->dims, data, std::move(copied)});
    }
  }
  return tensors;
}

// Arguments are copied: the program may destroy the objects once the call has returned.
aclError Execute(const char* function, const char* op_type, twin::NamedCall call, aclrtStream handle) {
  const twin::NamedOperator run = op_type == nullptr ? nullptr : twin::FindNamedOperator(op_type);
  if (run == nullptr) return Refuse(function, op_type, handle);
  std::shared_ptr<twin::Stream> stream;
  TWIN_TRY(twin::RequireStream(function, handle, &stream));
  return stream->Enqueue(
      [run, call = std::move(call)] {
        run(call);
        return ACL_SUCCESS;
      },
      function);
}

// Programs read these before setting them, to learn the defaults: nothing is compiled at run time here.
struct CompileOptions {
  std::mutex mutex;
  std::map<int, std::string> values{{ACL_OP_JIT_COMPILE, "disable"}};
};

CompileOptions& compile_options() {
  static auto* options = new CompileOptions;
  return *options;
}

struct NamedOperators {
  std::mutex mutex;
  std::map<std::string, twin::NamedOperator> all;
};

NamedOperators& named_operators() {
  static auto* operators = new NamedOperators;
  return *operators;
}

}  // namespace

void twin::AddNamedOperator(const char* name, NamedOperator run) {
  std::lock_guard lock(named_operators().mutex);
  named_operators().all[name] = run;
}

twin::NamedOperator twin::FindNamedOperator(const std::string& name) {
  std::lock_guard lock(named_operators().mutex);
  const auto found = named_operators().all.find(name);
  return found == named_operators().all.end() ? nullptr : found->second;
}

aclopAttr* aclopCreateAttr() { return std::make_unique<aclopAttr>().release(); }
void aclopDestroyAttr(const aclopAttr* attr) { std::unique_ptr<const aclopAttr> owned(attr); }

aclError aclopSetAttrBool(aclopAttr* attr, const char* attrName, uint8_t attrValue) {
  return SetAttribute(__func__, attr, attrName, attrValue != 0);
}

aclError aclopSetAttrInt(aclopAttr* attr, const char* attrName, int64_t attrValue) {
  return SetAttribute(__func__, attr, attrName, attrValue);
}

aclError aclopSetAttrFloat(aclopAttr* attr, const char* attrName, float attrValue) {
  return SetAttribute(__func__, attr, attrName, attrValue);
}

aclError aclopSetAttrString(aclopAttr* attr, const char* attrName, const char* attrValue) {
  if (attrValue == nullptr) return FailNull(__func__, "attrValue");
  return SetAttribute(__func__, attr, attrName, std::string(attrValue));
}

aclError aclopSetAttrDataType(aclopAttr* attr, const char* attrName, aclDataType attrValue) {
  return SetAttribute(__func__, attr, attrName, attrValue);
}

aclError aclopSetAttrListDataType(aclopAttr* attr, const char* attrName, int numValues, const aclDataType values[]) {
  return SetList<aclDataType>(__func__, attr, attrName, numValues, values);
}

aclError aclopSetAttrListBool(aclopAttr* attr, const char* attrName, int numValues, const uint8_t* values) {
  return SetList<bool>(__func__, attr, attrName, numValues, values);
}

aclError aclopSetAttrListInt(aclopAttr* attr, const char* attrName, int numValues, const int64_t* values) {
  return SetList<int64_t>(__func__, attr, attrName, numValues, values);
}

aclError aclopSetAttrListFloat(aclopAttr* attr, const char* attrName, int numValues, const float* values) {
  return SetList<float>(__func__, attr, attrName, numValues, values);
}

aclError aclopSetAttrListString(aclopAttr* attr, const char* attrName, int numValues, const char** values) {
  return SetList<std::string>(__func__, attr, attrName, numValues, values);
}

aclError aclopSetAttrListListInt(aclopAttr* attr, const char* attrName, int numLists, const int* numValues,
                                 const int64_t* const values[]) {
  if (numLists < 0 || (numLists > 0 && (numValues == nullptr || values == nullptr))) {
    return Fail(ACL_ERROR_INVALID_PARAM, __func__, Text("numLists is ", numLists, "; wanted that many lists"));
  }
  std::vector<std::vector<int64_t>> lists;
  for (int i = 0; i < numLists; ++i) lists.emplace_back(values[i], values[i] + numValues[i]);
  return SetAttribute(__func__, attr, attrName, std::move(lists));
}

aclError aclopCompile(const char* opType, int, const aclTensorDesc* const[], int, const aclTensorDesc* const[],
                      const aclopAttr*, aclopEngineType, aclopCompileType, const char*) {
  return NotFound(__func__, opType);
}

aclError aclopCompileAndExecute(const char* opType, int numInputs, const aclTensorDesc* const inputDesc[],
                                const aclDataBuffer* const inputs[], int numOutputs,
                                const aclTensorDesc* const outputDesc[], aclDataBuffer* const outputs[],
                                const aclopAttr* attr, aclopEngineType, aclopCompileType, const char*,
                                aclrtStream stream) {
  return Execute(__func__, opType,
                 {Tensors(numInputs, inputDesc, inputs), Tensors(numOutputs, outputDesc, outputs),
                  attr == nullptr ? std::map<std::string, twin::AttributeValue>() : attr->values},
                 stream);
}

aclError aclopCompileAndExecuteV2(const char* opType, int numInputs, aclTensorDesc* inputDesc[],
                                  aclDataBuffer* inputs[], int numOutputs, aclTensorDesc* outputDesc[],
                                  aclDataBuffer* outputs[], aclopAttr* attr, aclopEngineType, aclopCompileType,
                                  const char*, aclrtStream stream) {
  return Execute(__func__, opType,
                 {Tensors(numInputs, inputDesc, inputs), Tensors(numOutputs, outputDesc, outputs),
                  attr == nullptr ? std::map<std::string, twin::AttributeValue>() : attr->values},
                 stream);
}

aclError aclopExecuteV2(const char* opType, int, aclTensorDesc*[], aclDataBuffer*[], int, aclTensorDesc*[],
                        aclDataBuffer*[], aclopAttr*, aclrtStream stream) {
  return Refuse(__func__, opType, stream);
}

aclError aclSetCompileopt(aclCompileOpt opt, const char* value) {
  if (value == nullptr) return FailNull(__func__, "value");
  if (opt < ACL_PRECISION_MODE || opt > ACL_OP_DEBUG_OPTION) {
    return Fail(ACL_ERROR_INVALID_PARAM, __func__, Text("unknown option ", static_cast<int>(opt)));
  }
  CompileOptions& options = compile_options();
  std::lock_guard lock(options.mutex);
  options.values[opt] = value;
  return ACL_SUCCESS;
}

size_t aclGetCompileoptSize(aclCompileOpt opt) {
  CompileOptions& options = compile_options();
  std::lock_guard lock(options.mutex);
  const auto found = options.values.find(opt);
  return found == options.values.end() ? 0 : found->second.size() + 1;
}

aclError aclGetCompileopt(aclCompileOpt opt, char* value, size_t length) {
  if (value == nullptr) return FailNull(__func__, "value");
  CompileOptions& options = compile_options();
  std::lock_guard lock(options.mutex);
  const auto found = options.values.find(opt);
  if (found == options.values.end() || length <= found->second.size()) {
    return Fail(
        ACL_ERROR_INVALID_PARAM, __func__,
        Text("option ", static_cast<int>(opt), found == options.values.end() ? " was never set" : " is longer than ",
             found == options.values.end() ? std::string() : std::to_string(length)));
  }
  found->second.copy(value, found->second.size());
  value[found->second.size()] = '\0';
  return ACL_SUCCESS;
}
