// Operators that programs look up by name (aclopCompileAndExecute): a library that implements one registers
// it when it is loaded. libascendcl itself implements none and knows no tensor library.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "twin/acl/op_objects.h"

namespace twin {

struct NamedTensor {
  aclDataType type = ACL_DT_UNDEFINED;  // undefined: the optional tensor was omitted
  std::vector<int64_t> dims;
  void* data = nullptr;
  // Of an argument on the host, to which `data` then points.
  std::shared_ptr<const std::vector<std::byte>> copied;
};

struct NamedCall {
  std::vector<NamedTensor> inputs, outputs;
  std::map<std::string, AttributeValue> attributes;
};

// Runs on a stream's worker; throws on failure.
using NamedOperator = void (*)(const NamedCall& call);

// `name` must have static lifetime (a literal).
ACL_FUNC_VISIBILITY void AddNamedOperator(const char* name, NamedOperator run);
// nullptr if none is registered.
NamedOperator FindNamedOperator(const std::string& name);

}  // namespace twin
