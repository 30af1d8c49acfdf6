// The acl.h of the torch_npu wheel, and what newer CANN releases declare beside it.
#pragma once

#include_next "acl/acl.h"

#include "acl/acl_rt_newer.h"
