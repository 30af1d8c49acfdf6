#include "serve/tinker/proto_data.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "core/base/error.h"
#include "serve/tinker/tinker.pb.h"

namespace trireme::tinker {
namespace {

constexpr float kNoLogprob = -99999.0F;  // of an empty cell

template <typename Number>
std::vector<Number> NumbersIn(const std::string& bytes, const std::string& where) {
  if (bytes.size() % sizeof(Number) != 0)
    Refuse(Concat(where, ": ", bytes.size(), " bytes are no whole number of elements"));
  std::vector<Number> numbers(bytes.size() / sizeof(Number));
  if (!bytes.empty()) std::memcpy(numbers.data(), bytes.data(), bytes.size());
  return numbers;
}

template <typename Number>
std::string BytesOf(const std::vector<Number>& numbers) {
  return {reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(Number)};
}

template <typename Number>
std::vector<double> Widened(const std::string& bytes, const std::string& where) {
  const std::vector<Number> numbers = NumbersIn<Number>(bytes, where);
  return {numbers.begin(), numbers.end()};
}

std::vector<double> WidenedBf16(const std::string& bytes, const std::string& where) {
  std::vector<double> values;
  for (const uint16_t half : NumbersIn<uint16_t>(bytes, where)) {
    const uint32_t bits = static_cast<uint32_t>(half) << 16;
    float value = 0;
    std::memcpy(&value, &bits, sizeof(value));
    values.push_back(value);
  }
  return values;
}

std::vector<double> ValuesOf(const std::string& bytes, wire::DType dtype, const std::string& where) {
  switch (dtype) {
    case wire::DTYPE_FLOAT32:
      return Widened<float>(bytes, where);
    case wire::DTYPE_INT64:
      return Widened<int64_t>(bytes, where);
    case wire::DTYPE_INT32:
      return Widened<int32_t>(bytes, where);
    case wire::DTYPE_BFLOAT16:
      return WidenedBf16(bytes, where);
    default:
      Refuse(Concat(where, ": dtype ", static_cast<int>(dtype), " is not supported"));
  }
}

RawTensor TensorOf(const wire::Tensor& tensor, DenseBudget& budget, const std::string& where) {
  const bool sparse = tensor.has_sparse_csr();
  RawTensor raw{.integers = tensor.dtype() == wire::DTYPE_INT64 || tensor.dtype() == wire::DTYPE_INT32,
                .values = ValuesOf(sparse ? tensor.sparse_csr().values() : tensor.dense(), tensor.dtype(), where),
                .shape = {tensor.shape().begin(), tensor.shape().end()}};
  if (raw.shape.empty()) raw.shape = {std::ssize(raw.values)};
  if (!sparse) return raw;
  return Densified(raw, NumbersIn<int64_t>(tensor.sparse_csr().crow_indices(), where),
                   NumbersIn<int64_t>(tensor.sparse_csr().col_indices(), where), budget, where);
}

RawDatum DatumOf(const wire::Datum& datum, DenseBudget& budget, const std::string& where) {
  RawDatum raw;
  for (const wire::Chunk& chunk : datum.model_input()) {
    if (!chunk.has_encoded_text()) Refuse(where + ".model_input: only chunks of tokens are supported");
    const std::vector<int32_t> tokens = NumbersIn<int32_t>(chunk.encoded_text().tokens(), where + ".model_input");
    raw.tokens.insert(raw.tokens.end(), tokens.begin(), tokens.end());
  }
  budget.tokens = std::ssize(raw.tokens);
  for (const auto& [name, tensor] : datum.loss_fn_inputs()) {
    raw.inputs[name] = TensorOf(tensor, budget, where + ".loss_fn_inputs." + name.substr(0, 60));
  }
  return raw;
}

RawLoss LossOf(const wire::ForwardBackwardRequest& request) {
  RawLoss loss{.loss_fn = request.loss_fn()};
  for (const auto& [name, value] : request.loss_fn_config()) loss.config[name] = value;
  for (const auto& [name, value] : request.loss_fn_config_v2()) {
    if (value.value_case() != wire::LossConfigValue::kNumber)
      Refuse("loss_fn_config." + name.substr(0, 60) + ": wanted a number");
    loss.config[name] = value.number();
  }
  DenseBudget budget;
  for (int i = 0; i < request.data_size(); ++i)
    loss.data.push_back(DatumOf(request.data(i), budget, Concat("data[", i, "]")));
  return loss;
}

}  // namespace

ProtoPass ReadPassProto(const std::string& bytes) {
  wire::ForwardBackwardRequest request;
  if (!request.ParseFromString(bytes)) Refuse("the body is not a ForwardBackwardRequest in protobuf");
  ProtoPass pass{.model_id = request.model_id(), .seq_id = request.seq_id(), .forward_only = request.forward_only()};
  try {
    pass.loss = LossOf(request);
  } catch (const ApiError& error) {
    pass.refusal = error.message;
  }
  return pass;
}

// One record for all data: their values one after another. All data of a record have the same trailing shape, so that
// of [N, K] targets with different K each has a record.
std::string PassOutputProto(const TrainOutcome& outcome, const std::vector<int64_t>& columns) {
  wire::ForwardBackwardOutput output;
  output.set_loss_fn_output_type("TensorData");
  (*output.mutable_metrics())["loss:sum"] = outcome.loss;
  size_t row = 0;
  for (size_t datum = 0; datum < columns.size();) {
    const int64_t k = columns[datum];
    const auto wide = static_cast<size_t>(std::max<int64_t>(k, 1));
    std::vector<float> values;
    std::vector<int64_t> offsets = {0};
    for (; datum < columns.size() && columns[datum] == k; ++datum, row += wide) {
      for (size_t i = 0; i < outcome.logprobs[row].size(); ++i) {
        for (size_t column = 0; column < wide; ++column) values.push_back(outcome.logprobs[row + column][i]);
      }
      offsets.push_back(static_cast<int64_t>(values.size() * sizeof(float)));
    }
    wire::ArrayRecord& record = *output.add_loss_fn_outputs();
    record.set_num_datums(std::ssize(offsets) - 1);
    wire::BatchedTensor& tensor = (*record.mutable_fields())["logprobs"];
    tensor.set_data(BytesOf(values));
    tensor.set_offsets(BytesOf(offsets));
    tensor.set_dtype(wire::DTYPE_FLOAT32);
    if (k > 0) tensor.add_trailing_shape(k);
  }
  return output.SerializeAsString();
}

static void SetLikely(const Sampled& one, int64_t top, wire::TopkLogprobs& message) {
  std::vector<int32_t> tokens;
  std::vector<float> logprobs;
  for (std::vector<LikelyToken> likely : one.likely) {
    likely.resize(static_cast<size_t>(top), {.token = 0, .logprob = kNoLogprob});
    for (const LikelyToken& each : likely) {
      tokens.push_back(static_cast<int32_t>(each.token));
      logprobs.push_back(each.logprob);
    }
  }
  message.set_token_ids(BytesOf(tokens));
  message.set_logprobs(BytesOf(logprobs));
  message.set_k(static_cast<uint32_t>(top));
  message.set_length(static_cast<uint32_t>(one.likely.size()));
}

std::string SampleProto(const SampleOrder& order, const SampleResult& result) {
  wire::SampleResponse response;
  for (const Sampled& one : result.sequences) {
    wire::SampledSequence& sequence = *response.add_sequences();
    sequence.set_stop_reason(one.stopped ? wire::STOP : wire::LENGTH);
    sequence.set_tokens(BytesOf(std::vector<int32_t>(one.tokens.begin(), one.tokens.end())));
    sequence.set_logprobs(BytesOf(one.logprobs));
    if (order.top > 0) SetLikely(one, order.top, *sequence.mutable_topk_sampled_logprobs());
  }
  if (order.prompt_logprobs) {
    std::vector<float> of_prompt;
    for (const auto& value : PromptLogprobs(order, result))
      of_prompt.push_back(value.value_or(std::numeric_limits<float>::quiet_NaN()));
    response.set_prompt_logprobs(BytesOf(of_prompt));
  }
  return response.SerializeAsString();
}

}  // namespace trireme::tinker
