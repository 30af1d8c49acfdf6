// The objects of the aclnn interface: tensors, scalars, arrays and lists. An aclTensor is a view, in ATen's
// sense, of memory that the program owns; on the twin that memory is the host's, so the view is an ordinary
// CPU tensor. What an operator does with them is not here.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "acl/acl.h"

struct aclTensor {
  at::Tensor view;
  aclFormat format = ACL_FORMAT_ND;
};

struct aclScalar {
  at::Scalar value;
};

struct aclIntArray {
  std::vector<int64_t> values;
};

struct aclFloatArray {
  std::vector<float> values;
};

struct aclBoolArray {
  std::vector<uint8_t> values;  // one byte each: std::vector<bool> has no addresses
};

struct aclTensorList {
  std::vector<const aclTensor*> items;  // owned; nullptr for an omitted tensor
};

struct aclScalarList {
  std::vector<const aclScalar*> items;  // owned
};

namespace twin {

// The ATen type of an ACL type; throws std::invalid_argument for one that ATen does not support.
at::ScalarType AtenType(aclDataType type);

}  // namespace twin
