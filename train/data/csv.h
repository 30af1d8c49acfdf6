// CSV as RFC 4180 has it: quoted fields may hold separators, line ends and doubled quotes. The first line
// names the columns. Every value is a text.
#pragma once

#include <string>
#include <vector>

#include "core/base/json.h"

namespace trireme {

std::vector<Json> ReadCsv(const std::string& path, char separator);

}  // namespace trireme
