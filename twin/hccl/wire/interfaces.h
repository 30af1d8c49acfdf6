// Where this member listens: the choice of net/interfaces.h by HCCL's variables, with HCCL's error codes.
#pragma once

#include <string>
#include <vector>

#include "net/interfaces.h"
#include "twin/hccl/settings.h"

namespace twin {

using net::Interface;
using net::ListInterfaces;

std::string ChooseAddress(const Settings& settings, const std::vector<Interface>& interfaces);

}  // namespace twin
