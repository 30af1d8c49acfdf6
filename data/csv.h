// CSV as in RFC 4180: quoted fields may contain separators, line ends and doubled quotes. The first line
// names the columns. Every value is a string.
#pragma once

#include <string>
#include <vector>

#include "core/base/json.h"

namespace trireme {

std::vector<Json> ReadCsv(const std::string& path, char separator);

}  // namespace trireme
