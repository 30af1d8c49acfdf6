// For kernels that include it and run on vector cores; the cube unit, and with it Matmul, is missing.
#pragma once

#include "kernel_operator.h"
