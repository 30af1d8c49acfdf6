#include "data/row_keys.h"

#include <algorithm>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/base/nearest.h"
#include "core/base/text.h"

namespace trireme {
namespace {

// Whether the list has as many numbers as the row has tokens, each `first` plus its index times `step`.
bool Counts(const Json& list, size_t tokens, int64_t first, int64_t step) {
  if (!list.is_array() || list.size() != tokens) return false;
  for (size_t i = 0; i < tokens; ++i) {
    if (list[i] != first + step * static_cast<int64_t>(i)) return false;
  }
  return true;
}

[[noreturn]] void RefuseInput(const std::string& key, const Json& value) {
  throw InputError("has ", key, ": ", JsonLine(value).substr(0, 60),
                   ", which would be lost: rows of tokens have no such input here; remove the key");
}

}  // namespace

void RefuseOtherKeys(const Json& row, std::initializer_list<std::string_view> known) {
  for (const auto& [key, value] : row.items()) {
    if (value.is_null() || key.starts_with('_') || std::ranges::find(known, key) != known.end()) continue;
    const std::vector<std::string> names(known.begin(), known.end());
    const auto nearest = Nearest(key, names);
    throw InputError("has the key ", key, ", which would be lost; ",
                     nearest ? Concat("nearest: ", *nearest) : "known: " + Join(names),
                     "; remove it, or rename it to _", key, ", which is ignored");
  }
}

void RefuseModelInputs(const Json& record, size_t tokens) {
  for (const auto& [key, value] : record.items()) {
    if (value.is_null()) continue;
    const bool given = key == "attention_mask" || key == "token_type_ids" || key == "position_ids";
    if (given && !Counts(value, tokens, key == "attention_mask" ? 1 : 0, key == "position_ids" ? 1 : 0)) {
      RefuseInput(key, value);
    }
    for (const char* other : {"pixel_values", "pixel_values_videos", "image_grid_thw", "video_grid_thw",
                              "mm_token_type_ids", "inputs_embeds", "cu_seqlens", "starts", "samples"}) {
      if (key == other) RefuseInput(key, value);
    }
  }
}

}  // namespace trireme
