// Operators that programs ask for by name (aclopCompileAndExecute): who computes one adds it when its library
// is loaded. libascendcl itself knows none, and no tensor.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "twin/acl/op_objects.h"

namespace twin {

struct NamedTensor {
  aclDataType type = ACL_DT_UNDEFINED;  // undefined: left out
  std::vector<int64_t> dims;
  void* data = nullptr;
};

struct NamedCall {
  std::vector<NamedTensor> inputs, outputs;
  std::map<std::string, AttributeValue> attributes;
};

// Runs on a stream's worker; throws what went wrong.
using NamedOperator = void (*)(const NamedCall& call);

// `name` must outlive the process's use of it (a literal).
ACL_FUNC_VISIBILITY void AddNamedOperator(const char* name, NamedOperator run);
// nullptr where nobody has added it.
NamedOperator FindNamedOperator(const std::string& name);

}  // namespace twin
