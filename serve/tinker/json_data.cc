#include "serve/tinker/json_data.h"

#include "core/base/error.h"
#include "serve/fields.h"

namespace trireme::tinker {
namespace {

std::vector<int64_t> Integers(const Json* list, const std::string& where) {
  std::vector<int64_t> numbers;
  if (list == nullptr || !list->is_array()) Refuse(where + ": wanted a list of whole numbers");
  numbers.reserve(list->size());
  for (const Json& value : *list) {
    if (!value.is_number_integer()) Refuse(where + ": wanted whole numbers");
    numbers.push_back(value.get<int64_t>());
  }
  return numbers;
}

std::vector<double> Numbers(const Json* list, const std::string& where) {
  std::vector<double> numbers;
  if (list == nullptr || !list->is_array()) Refuse(where + ": wanted a list of numbers as data");
  numbers.reserve(list->size());
  for (const Json& value : *list) {
    if (!value.is_number()) Refuse(where + ": wanted finite numbers as data");
    numbers.push_back(value.get<double>());
  }
  return numbers;
}

RawTensor ReadTensor(const Json& json, DenseBudget& budget, const std::string& where) {
  Fields fields(json, where);
  const std::string dtype = fields.Text("dtype").value_or("float32");
  if (dtype != "int64" && dtype != "float32")
    Refuse(where + ": dtype " + dtype.substr(0, 20) + "; wanted int64 or float32");
  RawTensor tensor{.integers = dtype == "int64", .values = Numbers(fields.Find("data"), where), .shape = {}};
  const Json* shape = fields.Find("shape");
  tensor.shape = shape == nullptr ? std::vector<int64_t>{std::ssize(tensor.values)} : Integers(shape, where + ".shape");
  const Json* rows = fields.Find("sparse_crow_indices");
  const Json* columns = fields.Find("sparse_col_indices");
  fields.Finish();
  if (rows == nullptr && columns == nullptr) return tensor;
  return Densified(tensor, Integers(rows, where + ".sparse_crow_indices"),
                   Integers(columns, where + ".sparse_col_indices"), budget, where);
}

RawDatum ReadDatum(const Json& json, DenseBudget& budget, const std::string& where) {
  Fields fields(json, where);
  const Json* input = fields.Find("model_input");
  if (input == nullptr) Refuse(where + ": has no model_input");
  RawDatum datum{.tokens = ReadTokens(*input, where + ".model_input"), .inputs = {}};
  budget.tokens = std::ssize(datum.tokens);
  if (const Json* tensors = fields.Find("loss_fn_inputs")) {
    if (!tensors->is_object()) Refuse(where + ".loss_fn_inputs: wanted an object");
    for (const auto& [name, value] : tensors->items()) {
      datum.inputs[name] = ReadTensor(value, budget, where + ".loss_fn_inputs." + name.substr(0, 60));
    }
  }
  fields.Finish();
  return datum;
}

}  // namespace

std::vector<int64_t> ReadTokens(const Json& model_input, const std::string& name) {
  Fields fields(model_input, name);
  const Json* chunks = fields.Find("chunks");
  if (chunks == nullptr || !chunks->is_array()) Refuse(name + ": wanted a list of chunks");
  fields.Finish();
  std::vector<int64_t> tokens;
  for (const Json& chunk : *chunks) {
    Fields parts(chunk, name + ".chunks");
    const std::string type = parts.Text("type").value_or("encoded_text");
    if (type != "encoded_text")
      Refuse(name + ": chunks of type " + type.substr(0, 40) + " are not supported; send tokens");
    const std::vector<int64_t> own = Integers(parts.Find("tokens"), name + ".chunks.tokens");
    tokens.insert(tokens.end(), own.begin(), own.end());
    parts.Finish();
  }
  return tokens;
}

RawLoss ReadLossJson(const Json& input, const std::string& name) {
  Fields fields(input, name);
  RawLoss loss;
  loss.loss_fn = fields.Text("loss_fn").value_or("");
  const Json* data = fields.Find("data");
  if (data == nullptr || !data->is_array()) Refuse(name + ".data: wanted a list");
  DenseBudget budget;
  for (size_t i = 0; i < data->size(); ++i) loss.data.push_back(ReadDatum((*data)[i], budget, Concat("data[", i, "]")));
  if (const Json* config = fields.Find("loss_fn_config")) {
    if (!config->is_object()) Refuse(name + ".loss_fn_config: wanted an object");
    for (const auto& [key, value] : config->items()) {
      if (!value.is_number() && !value.is_boolean())
        Refuse("loss_fn_config." + key.substr(0, 60) + ": wanted a number");
      loss.config[key] = value.is_boolean() ? (value.get<bool>() ? 1 : 0) : value.get<double>();
    }
  }
  fields.Finish();
  return loss;
}

}  // namespace trireme::tinker
