// What clients attach to what they make here, to find it again: kept as long as that, so it has a limit.
#pragma once

#include <cstdint>
#include <string>

#include "core/base/json.h"
#include "serve/fields.h"

namespace trireme::tinker {

inline constexpr int64_t kMostMetadataBytes = 16 << 10;  // as JSON
inline constexpr int64_t kMostNameBytes = 256;

// The field user_metadata; null: there is none.
Json UserMetadata(Fields& fields);
// A field that is a name; empty: there is none.
std::string UserName(Fields& fields, const std::string& field);

}  // namespace trireme::tinker
