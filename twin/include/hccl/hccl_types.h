// The hccl_types.h of the torch_npu wheel, plus what newer HCCL releases declare.
#pragma once

#include_next <hccl/hccl_types.h>

#include "hccl/hccl_types_newer.h"
