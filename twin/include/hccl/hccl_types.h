// The hccl_types.h of the torch_npu wheel, and what newer HCCL releases name beside it.
#pragma once

#include_next <hccl/hccl_types.h>

#include "hccl/hccl_types_newer.h"
