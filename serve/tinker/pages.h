// Page: a part of a long list as clients ask for it: at most `limit` from `offset` on, and how long the list is.
#pragma once

#include <algorithm>
#include <string>

#include "core/base/json.h"

namespace trireme::tinker {

inline Json Page(const std::string& name, const Json& all, int64_t limit, int64_t offset) {
  Json some = Json::array();
  for (int64_t i = offset; i < std::min<int64_t>(offset + limit, std::ssize(all)); ++i)
    some.push_back(all[static_cast<size_t>(i)]);
  return {{name, some}, {"cursor", {{"offset", offset}, {"limit", limit}, {"total_count", all.size()}}}};
}

}  // namespace trireme::tinker
