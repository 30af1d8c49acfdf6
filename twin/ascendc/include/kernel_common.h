// The whole interface, under a header name that device code includes.
#pragma once

#include "kernel_operator.h"
