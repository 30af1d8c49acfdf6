// The element types by the name of the header that device code includes for them.
#pragma once

#include "ascendc/types.h"
