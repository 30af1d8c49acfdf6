// The element types, under the header name that device code includes.
#pragma once

#include "ascendc/types.h"
