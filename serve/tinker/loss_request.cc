#include "serve/tinker/loss_request.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/base/error.h"
#include "core/base/text.h"

namespace trireme::tinker {
namespace {

constexpr char kLow[] = "clip_low_threshold", kHigh[] = "clip_high_threshold";
constexpr int64_t kMostRows = int64_t{1} << 18;  // of a request: a row of one token takes some hundred bytes here
constexpr double kMostExact = int64_t{1} << 53;  // up to here a double is a whole number's own

struct Wanted {
  const LossKind& kind;
  const DataLimits& limits;
  std::string where;  // the datum
};

const RawTensor& TensorOf(const RawDatum& datum, const std::string& name, const Wanted& wanted) {
  const auto found = datum.inputs.find(name);
  if (found == datum.inputs.end()) Refuse(Concat(wanted.where, ": ", wanted.kind.name, " needs loss_fn_inputs.", name));
  return found->second;
}

// The shape is checked against the number of positions, and column k of it taken.
std::vector<float> ColumnOf(const RawTensor& tensor, int64_t k, int64_t columns, const std::string& where) {
  std::vector<float> numbers;
  const auto step = static_cast<size_t>(std::max<int64_t>(columns, 1));
  for (size_t i = static_cast<size_t>(k); i < tensor.values.size(); i += step) {
    const bool fits = std::abs(tensor.values[i]) <= std::numeric_limits<float>::max();  // NaN does not
    if (!fits) Refuse(where + ": has a value that is NaN or infinite, as float32");
    numbers.push_back(static_cast<float>(tensor.values[i]));
  }
  return numbers;
}

void CheckShape(const RawTensor& tensor, const std::vector<int64_t>& shape, const std::string& where) {
  const auto text = [](const std::vector<int64_t>& dims) { return "[" + Join(dims) + "]"; };
  int64_t cells = 1;
  for (const int64_t dim : shape) cells *= dim;
  if (tensor.shape == shape && cells == std::ssize(tensor.values)) return;
  Refuse(Concat(where, ": has ", tensor.values.size(), " values of shape ", text(tensor.shape), "; wanted ",
                text(shape), ", one for each token of model_input"));
}

void CheckNames(const RawDatum& datum, const Wanted& wanted) {
  for (const auto& [name, tensor] : datum.inputs) {
    const bool known = name == "target_tokens" || std::ranges::count(wanted.kind.inputs, name) > 0 ||
                       (wanted.kind.clips && (name == kLow || name == kHigh));
    if (known) continue;
    Refuse(Concat(wanted.where, ": loss_fn_inputs.", name.substr(0, 60), " is not an input of ", wanted.kind.name,
                  "; it takes target_tokens, ", Join(wanted.kind.inputs)));
  }
}

std::vector<float>& InputOf(LossInputs& inputs, const std::string& name) {
  if (name == "weights") return inputs.weights;
  if (name == "logprobs") return inputs.logprobs;
  return name == "advantages" ? inputs.advantages : inputs.sequence_ratio_mask;
}

void CheckMask(const LossInputs& inputs, const Wanted& wanted) {
  const auto& mask = inputs.sequence_ratio_mask;
  double sum = 0;
  for (const float value : mask) sum += value;
  if (!mask.empty() && sum <= 0) Refuse(wanted.where + ": loss_fn_inputs.sequence_ratio_mask has no positive sum");
}

// columns: of the datum that is about to add its rows.
void CheckRows(int64_t columns, const Wanted& wanted, const LossRequest& request) {
  if (columns > kMostColumns) {
    Refuse(Concat(wanted.where, ".loss_fn_inputs.target_tokens: has ", columns, " targets per token; the server takes ",
                  kMostColumns));
  }
  if (std::ssize(request.rows) + std::max<int64_t>(columns, 1) <= kMostRows) return;
  Refuse(Concat(wanted.where, ": the request has more than ", kMostRows,
                " sequences, of which each column of targets is one; send fewer data at a time"));
}

void AddRows(const RawDatum& datum, const Wanted& wanted, LossRequest& request) {
  CheckTokens(datum.tokens, wanted.limits, wanted.where + ".model_input");
  CheckNames(datum, wanted);
  const RawTensor& targets = TensorOf(datum, "target_tokens", wanted);
  const bool two = targets.shape.size() == 2;
  if (two && wanted.kind.name != "cross_entropy" && wanted.kind.name != "importance_sampling") {
    Refuse(Concat(wanted.where, ": ", wanted.kind.name, " takes one target per token, not ", targets.shape[1]));
  }
  const int64_t columns = two ? targets.shape[1] : 0, length = std::ssize(datum.tokens);
  const std::vector<int64_t> shape = two ? std::vector<int64_t>{length, columns} : std::vector<int64_t>{length};
  if (two && columns < 1) Refuse(wanted.where + ": target_tokens has no column");
  CheckRows(columns, wanted, request);
  CheckShape(targets, shape, wanted.where + ".loss_fn_inputs.target_tokens");
  for (int64_t k = 0; k < std::max<int64_t>(columns, 1); ++k) {
    TrainRow row{.tokens = datum.tokens, .targets = {}, .inputs = {}};
    for (size_t i = static_cast<size_t>(k); i < targets.values.size();
         i += static_cast<size_t>(std::max<int64_t>(columns, 1))) {
      if (!(std::abs(targets.values[i]) <= kMostExact))
        Refuse(wanted.where + ": target_tokens has a value that is no token");
      row.targets.push_back(static_cast<int64_t>(targets.values[i]));
      if (targets.values[i] != static_cast<double>(row.targets.back()))
        Refuse(wanted.where + ": target_tokens are not whole");
    }
    CheckTokens(row.targets, {wanted.limits.vocabulary, wanted.limits.context},
                wanted.where + ".loss_fn_inputs.target_tokens");
    for (const std::string& name : wanted.kind.inputs) {
      const RawTensor& tensor = TensorOf(datum, name, wanted);
      const std::string where = wanted.where + ".loss_fn_inputs." + name;
      CheckShape(tensor, shape, where);
      InputOf(row.inputs, name) = ColumnOf(tensor, k, columns, where);
    }
    CheckMask(row.inputs, wanted);
    request.rows.push_back(std::move(row));
  }
  request.columns.push_back(columns);
}

// From the config, or as a tensor whose values are all the same.
std::optional<double> Threshold(const RawLoss& raw, const std::string& name) {
  std::optional<double> value;
  if (const auto found = raw.config.find(name); found != raw.config.end()) value = found->second;
  for (size_t i = 0; i < raw.data.size(); ++i) {
    const auto tensor = raw.data[i].inputs.find(name);
    if (tensor == raw.data[i].inputs.end()) continue;
    for (const double number : tensor->second.values) {
      if (!std::isfinite(number))
        Refuse(Concat("data[", i, "].loss_fn_inputs.", name, ": is NaN or infinite; send a finite value"));
      if (value && *value != number)
        Refuse(Concat("data[", i, "].loss_fn_inputs.", name, ": differs within the request; send one value"));
      value = number;
    }
  }
  return value;
}

LossNumbers NumbersOf(const RawLoss& raw, const LossKind& kind) {
  LossNumbers numbers{.clip_low = kind.clip_low, .clip_high = kind.clip_high};
  for (const auto& [name, value] : raw.config) {
    const bool known = (kind.clips && (name == kLow || name == kHigh)) || (kind.needs_beta && name == "beta") ||
                       name == "disable_lora";
    if (!known) Refuse("loss_fn_config." + name.substr(0, 60) + ": " + kind.name + " does not take it");
    if (!std::isfinite(value)) Refuse("loss_fn_config." + name + ": is NaN or infinite");
  }
  if (kind.clips) {
    const auto low = Threshold(raw, kLow), high = Threshold(raw, kHigh);
    if (kind.needs_thresholds && (!low || !high))
      Refuse(Concat(kind.name, " needs ", kLow, " and ", kHigh, " in loss_fn_config"));
    numbers.clip_low = low.value_or(numbers.clip_low);
    numbers.clip_high = high.value_or(numbers.clip_high);
    if (!(numbers.clip_low <= numbers.clip_high))
      Refuse(Concat(kLow, " = ", numbers.clip_low, " is above ", kHigh, " = ", numbers.clip_high));
  }
  if (kind.needs_beta) {
    if (!raw.config.contains("beta")) Refuse(kind.name + " needs beta in loss_fn_config");
    numbers.beta = raw.config.at("beta");
  }
  return numbers;
}

}  // namespace

void CheckTokens(const std::vector<int64_t>& tokens, const DataLimits& limits, const std::string& where) {
  if (tokens.empty()) Refuse(where + ": has no tokens");
  if (std::ssize(tokens) > limits.context) {
    Refuse(Concat(where, ": has ", tokens.size(), " tokens; the server takes ", limits.context));
  }
  for (const int64_t token : tokens) {
    if (token < 0 || token >= limits.vocabulary) {
      Refuse(Concat(where, ": token ", token, " is outside the vocabulary of ", limits.vocabulary));
    }
  }
}

LossRequest CheckLoss(const RawLoss& raw, const DataLimits& limits) {
  const LossKind* kind = FindLoss(raw.loss_fn);
  if (kind == nullptr)
    Refuse("loss_fn '" + raw.loss_fn.substr(0, 60) + "' is not known here; known: " + Join(LossNames()));
  if (raw.data.empty()) Refuse("data is empty");
  LossRequest request{.loss = raw.loss_fn, .numbers = NumbersOf(raw, *kind)};
  const auto base = raw.config.find("disable_lora");
  request.base = base != raw.config.end() && base->second != 0;
  for (size_t i = 0; i < raw.data.size(); ++i) {
    AddRows(raw.data[i], {*kind, limits, Concat("data[", i, "]")}, request);
  }
  return request;
}

}  // namespace trireme::tinker
