// An alias for the whole interface.
#pragma once

#include "kernel_operator.h"
