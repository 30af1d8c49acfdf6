// The objects behind ACL's operator calls: tensor descriptions, data buffers, attributes. Plain values; the
// operators themselves are elsewhere.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "acl/acl.h"

struct aclDataBuffer {
  void* data = nullptr;
  size_t bytes = 0;
};

struct aclTensorDesc {
  aclDataType type = ACL_DT_UNDEFINED;
  aclFormat format = ACL_FORMAT_UNDEFINED;
  std::vector<int64_t> dims;
  aclFormat storage_format = ACL_FORMAT_UNDEFINED;
  std::vector<int64_t> storage_dims;
  std::vector<std::array<int64_t, 2>> dim_ranges;
  std::vector<std::array<int64_t, 2>> value_ranges;
  std::string name;
  std::string dynamic_input_name;
  std::vector<std::byte> constant;  // aclSetTensorConst: a copy of the value
  aclMemType placement = ACL_MEMTYPE_DEVICE;
};

namespace twin {

using AttributeValue = std::variant<bool, int64_t, float, std::string, aclDataType, std::vector<bool>,
                                    std::vector<int64_t>, std::vector<float>, std::vector<std::string>,
                                    std::vector<aclDataType>, std::vector<std::vector<int64_t>>>;

}  // namespace twin

struct aclopAttr {
  std::map<std::string, twin::AttributeValue> values;
};
