#include "parallel/pass/rotation.h"

#include <ATen/ATen.h>

#include <map>

#include "core/base/error.h"
#include "core/tensor/device_copies.h"
#include "parallel/graph/rope.h"
#include "parallel/pass/pass_input.h"

namespace trireme {

Rotation::Rotation(const RopeSpec& rope)
    : rope_(rope), frequencies_(InverseFrequencies(rope)), axes_(RotaryAxes(rope)), key_(frequencies_) {
  const int64_t limit = LengthLimit(rope);
  key_.push_back(rope.magnitude);
  key_.push_back(static_cast<double>(limit));
  const std::vector<double> beyond = limit > 0 ? InverseFrequencies(rope, limit + 1) : std::vector<double>();
  key_.insert(key_.end(), beyond.begin(), beyond.end());
  key_.insert(key_.end(), axes_.begin(), axes_.end());
}

RotaryTable Rotation::TableOf(const PassInput& input) const {
  RotaryTable table = !axes_.empty() && input.image_positions.defined() ? TableByAxes(input)
                      : LengthLimit(rope_) > 0 ? TableByLength(input)
                                               : MakeRotaryTable(input.positions, frequencies_);
  if (rope_.magnitude != 1) table = {table.cosine * rope_.magnitude, table.sine * rope_.magnitude};
  return table;
}

// One line of frequencies for each class of lengths that the tokens' documents are of.
RotaryTable Rotation::TableByLength(const PassInput& input) const {
  TRIREME_CHECK(input.document_tokens.defined()) << "a rotary embedding by length, and documents of unknown lengths";
  const at::Tensor lengths = input.document_tokens.contiguous();
  std::map<int64_t, int64_t> line_of;  // by class
  std::vector<int64_t> lines;          // of each token
  std::vector<double> frequencies;
  for (int64_t i = 0; i < lengths.numel(); ++i) {
    const int64_t length = lengths.data_ptr<int64_t>()[i];
    const auto [found, fresh] = line_of.try_emplace(LengthClass(rope_, length), std::ssize(line_of));
    lines.push_back(found->second);
    if (!fresh) continue;
    const std::vector<double> own = InverseFrequencies(rope_, length);
    frequencies.insert(frequencies.end(), own.begin(), own.end());
  }
  const at::Device device = input.positions.device();
  const at::Tensor table = at::tensor(frequencies, at::kDouble).to(at::kFloat).view({std::ssize(line_of), -1});
  const at::Tensor steps = Upload(table, device).index_select(0, Upload(at::tensor(lines, at::kLong), device));
  const at::Tensor angles = input.positions.to(at::kFloat).unsqueeze(1) * steps;
  return {angles.cos(), angles.sin()};
}

RotaryTable Rotation::TableByAxes(const PassInput& input) const {
  TRIREME_CHECK(LengthLimit(rope_) == 0) << "a rotary embedding in three dimensions that depends on the length";
  const at::Tensor of_pair = Upload(at::tensor(axes_, at::kLong), input.image_positions.device());
  const at::Tensor positions = input.image_positions.index_select(0, of_pair).t();  // [tokens, pairs]
  const at::Tensor steps = Upload(at::tensor(frequencies_, at::kDouble).to(at::kFloat), positions.device());
  const at::Tensor angles = positions.to(at::kFloat) * steps.unsqueeze(0);
  return {angles.cos().contiguous(), angles.sin().contiguous()};
}

}  // namespace trireme
