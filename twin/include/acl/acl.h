// The acl.h of the torch_npu wheel, plus what newer CANN releases declare.
#pragma once

#include_next "acl/acl.h"

#include "acl/acl_rt_newer.h"
