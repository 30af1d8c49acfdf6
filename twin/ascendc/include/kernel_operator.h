// AscendC on the host: the interface that kernels are written in, one family per file. Vector cores only; the
// cube unit's functions are missing.
#pragma once

#include "ascendc/activation.h"
#include "ascendc/binary.h"
#include "ascendc/compare.h"
#include "ascendc/copy.h"
#include "ascendc/debug.h"
#include "ascendc/fill.h"
#include "ascendc/gather.h"
#include "ascendc/macros.h"
#include "ascendc/math.h"
#include "ascendc/normalization.h"
#include "ascendc/operators.h"
#include "ascendc/padding.h"
#include "ascendc/queue.h"
#include "ascendc/reduce.h"
#include "ascendc/scalar.h"
#include "ascendc/scalar_math.h"
#include "ascendc/sequences.h"
#include "ascendc/softmax.h"
#include "ascendc/sort.h"
#include "ascendc/sync.h"
#include "ascendc/tiling.h"
#include "ascendc/tilings.h"
#include "ascendc/types.h"
#include "ascendc/unary.h"

namespace tik2 = AscendC;  // its original name
