// Keys of rows that are given as tokens: which of them count. What has a meaning elsewhere and none here would make the
// row another one without a word, so that it is refused. Errors name the key, not the place of the row.
#pragma once

#include <initializer_list>
#include <string_view>

#include "core/base/json.h"

namespace trireme {

// For files whose keys are all ours: refuses a key that is not known, with the nearest one that is. Those that begin
// with _ are the user's own; a key whose value is null is not there.
void RefuseOtherKeys(const Json& row, std::initializer_list<std::string_view> known);

// For records that may have columns of the user's own, beside `tokens` ids: refuses what models elsewhere are fed with
// them, but where it says what happens anyway (an attention_mask of ones).
void RefuseModelInputs(const Json& record, size_t tokens);

}  // namespace trireme
