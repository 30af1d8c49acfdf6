// The tilings, under the header name that device code includes.
#pragma once

#include "ascendc/tilings.h"
