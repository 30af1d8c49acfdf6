// Contexts: created by the program, current on a thread, and the options stored with them.
#include <atomic>

#include "acl/acl.h"
#include "twin/acl/runtime/error.h"
#include "twin/acl/runtime/runtime.h"

using twin::Context;
using twin::Fail;
using twin::FailNull;
using twin::Runtime;
using twin::Text;

namespace {

aclError FindContext(const char* function, aclrtContext handle, std::shared_ptr<Context>* context) {
  if (handle == nullptr) return FailNull(function, "context");
  *context = Runtime::Get().contexts.Find(handle);
  if (*context != nullptr) return ACL_SUCCESS;
  return Fail(ACL_ERROR_RT_CONTEXT_NULL, function,
              Text(handle, " is not a live context; it was destroyed or its device was reset"));
}

aclError CheckOption(const char* function, aclSysParamOpt option) {
  if (option == ACL_OPT_DETERMINISTIC || option == ACL_OPT_ENABLE_DEBUG_KERNEL) return ACL_SUCCESS;
  return Fail(ACL_ERROR_INVALID_PARAM, function, Text("unknown option ", static_cast<int>(option)));
}

// Values of aclrtSetSysParamOpt, one per option of aclSysParamOpt.
std::atomic<int64_t> process_options[2];

}  // namespace

aclError aclrtCreateContext(aclrtContext* context, int32_t deviceId) {
  if (context == nullptr) return FailNull(__func__, "context");
  TWIN_TRY(twin::RequireInit(__func__));
  if (Runtime::Get().device(deviceId) == nullptr) {
    return Fail(ACL_ERROR_RT_INVALID_DEVICEID, __func__,
                Text("no device ", deviceId, "; wanted 0 to ", Runtime::Get().device_count() - 1));
  }
  const std::shared_ptr<Context> made = Runtime::Get().NewContext(deviceId, false);
  twin::SetCurrent(made);
  *context = made->handle;
  return ACL_SUCCESS;
}

aclError aclrtDestroyContext(aclrtContext context) {
  std::shared_ptr<Context> found;
  TWIN_TRY(FindContext(__func__, context, &found));
  if (found->is_default) {
    return Fail(ACL_ERROR_RT_CONTEXT_RELEASE_ERROR, __func__,
                Text("this is the default context of device ", found->device, "; only aclrtResetDevice destroys it"));
  }
  Runtime::Get().DropContext(found);
  return ACL_SUCCESS;
}

aclError aclrtSetCurrentContext(aclrtContext context) {
  std::shared_ptr<Context> found;
  TWIN_TRY(FindContext(__func__, context, &found));
  twin::SetCurrent(found);
  return ACL_SUCCESS;
}

aclError aclrtGetCurrentContext(aclrtContext* context) {
  if (context == nullptr) return FailNull(__func__, "context");
  std::shared_ptr<Context> current;
  TWIN_TRY(twin::RequireContext(__func__, &current));
  *context = current->handle;
  return ACL_SUCCESS;
}

aclError aclrtCtxSetSysParamOpt(aclSysParamOpt opt, int64_t value) {
  TWIN_TRY(CheckOption(__func__, opt));
  std::shared_ptr<Context> context;
  TWIN_TRY(twin::RequireContext(__func__, &context));
  std::lock_guard lock(context->mutex);
  context->system_options[opt] = value;
  return ACL_SUCCESS;
}

aclError aclrtSetSysParamOpt(aclSysParamOpt opt, int64_t value) {
  TWIN_TRY(CheckOption(__func__, opt));
  process_options[opt] = value;
  return ACL_SUCCESS;
}

aclError aclrtGetSysParamOpt(aclSysParamOpt opt, int64_t* value) {
  if (value == nullptr) return FailNull(__func__, "value");
  TWIN_TRY(CheckOption(__func__, opt));
  *value = process_options[opt];
  return ACL_SUCCESS;
}
