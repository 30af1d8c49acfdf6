#include "data/text_labels.h"

#include <algorithm>
#include <cmath>

#include "core/base/error.h"
#include "core/base/text.h"
#include "data/text_samples.h"

namespace trireme {
namespace {

constexpr size_t kNamesShown = 8;

std::string Shown(const Json& value) { return value.dump().substr(0, 60); }

// A label's number, from itself or its name.
size_t LabelNumber(const Json& label, const std::vector<std::string>& names) {
  if (label.is_string()) {
    const auto found = std::ranges::find(names, label.get_ref<const std::string&>());
    if (found != names.end()) return static_cast<size_t>(found - names.begin());
    const std::vector<std::string> some(names.begin(), names.begin() + std::min(names.size(), kNamesShown));
    throw InputError("has the label ", Shown(label), "; the head has ", Join(some),
                     some.size() < names.size() ? ", …" : "", ": name the labels with retrieval.label_names");
  }
  if (label.is_boolean()) return label.get<bool>() ? 1 : 0;
  if (!label.is_number_integer()) throw InputError("has the label ", Shown(label), "; wanted a number or a name");
  const int64_t number = label.get<int64_t>();
  if (number >= 0 && number < std::ssize(names)) return static_cast<size_t>(number);
  throw InputError("has the label ", number, ", beyond the head's ", names.size(), " labels, 0 to ", names.size() - 1,
                   "; set retrieval.labels");
}

std::vector<float> NumbersOf(const Json& label, size_t count) {
  const Json list = label.is_array() ? label : Json::array({label});
  if (list.size() != count) {
    throw InputError("has ", list.size(), " numbers as its label; the head gives ", count, ": set retrieval.labels");
  }
  std::vector<float> numbers;
  for (const Json& number : list) numbers.push_back(NumberOf(number, "label"));
  return numbers;
}

std::vector<float> SeveralOf(const Json& label, const std::vector<std::string>& names) {
  const Json list = label.is_array() ? label : Json::array({label});
  const bool for_each =
      !list.empty() && std::ranges::all_of(list, [](const Json& one) { return one.is_number_float(); });
  if (for_each) {
    std::vector<float> numbers = NumbersOf(list, names.size());
    const auto is_none = [](float number) { return number < 0 || number > 1; };
    if (std::ranges::none_of(numbers, is_none)) return numbers;
    throw InputError("has the labels ", Shown(list), "; wanted 0.0 to 1.0 for each");
  }
  std::vector<float> numbers(names.size(), 0.0F);
  for (const Json& one : list) numbers[LabelNumber(one, names)] = 1;
  return numbers;
}

}  // namespace

Json ListIfText(const Json& value) {
  if (!value.is_string() || !value.get_ref<const std::string&>().starts_with("[")) return value;
  const Json parsed = TryParseJson(value.get<std::string>());
  return parsed.is_array() ? parsed : value;
}

float NumberOf(const Json& value, const std::string& key) {
  if (value.is_boolean()) return value.get<bool>() ? 1.0F : 0.0F;
  if (value.is_number() && std::isfinite(value.get<float>())) return value.get<float>();
  throw InputError("'", key, "' is ", Shown(value), "; wanted a number");
}

std::vector<float> TargetsOf(const Json& label, const TextOptions& options) {
  const Json value = ListIfText(label);
  switch (options.keys.problem()) {
    case PROBLEM_SINGLE_LABEL: {
      if (value.is_array() && value.size() != 1) {
        throw InputError("has ", value.size(), " labels; for several set retrieval.problem: multi_label");
      }
      return {static_cast<float>(LabelNumber(value.is_array() ? value[0] : value, options.labels))};
    }
    case PROBLEM_MULTI_LABEL:
      return SeveralOf(value, options.labels);
    case PROBLEM_REGRESSION:
      return NumbersOf(value, options.labels.size());
  }
  return {};
}

}  // namespace trireme
