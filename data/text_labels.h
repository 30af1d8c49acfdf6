// Labels of records: numbers, names, or several of them, as the targets of a classifier. Errors do not name the place.
#pragma once

#include <string>
#include <vector>

#include "core/base/json.h"

namespace trireme {

struct TextOptions;  // data/text_samples.h

// Tables hold lists as texts: such a text as its list, anything else unchanged.
Json ListIfText(const Json& value);

// A finite number, or a truth value as one.
float NumberOf(const Json& value, const std::string& key);

// single_label: the label's number; multi_label: 1 or 0 for each label, from a list of those that are right (numbers or
// names), or from a 0.0 or 1.0 for each; regression: the numbers. Refuses labels beyond those that the head has.
std::vector<float> TargetsOf(const Json& label, const TextOptions& options);

}  // namespace trireme
