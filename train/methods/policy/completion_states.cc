#include "train/methods/policy/completion_states.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "parallel/objectives/answer_facts.h"

namespace trireme {

CompletionStates::CompletionStates(const std::vector<PassInput>& inputs, std::span<const Rollout> rollouts) {
  for (const PassInput& input : inputs) {
    std::vector<Place>& places = places_.emplace_back();
    const at::Tensor documents = input.sequence.to(at::kCPU), positions = input.positions.to(at::kCPU);
    for (int64_t i = 0; i < documents.numel(); ++i) {
      const int64_t document = documents.data_ptr<int64_t>()[i];
      if (document < 0) continue;
      const auto completion =
          static_cast<size_t>(input.facts.Get<AnswerFacts>().values.at(static_cast<size_t>(document)));
      const Rollout& rollout = rollouts[completion];
      // A document's positions count its prompt, also where it shares the prompt with others.
      const int64_t state = positions.data_ptr<int64_t>()[i] + 1 - std::ssize(rollout.prompt_ids);
      if (state < 0 || state > std::ssize(rollout.completion_ids)) continue;
      places.push_back({.token = i, .completion = completion, .state = static_cast<size_t>(state)});
    }
  }
}

void CompletionStates::Collect(size_t input, const at::Tensor& by_token, std::span<std::vector<float>> rows) const {
  const at::Tensor host = by_token.to(at::kCPU).contiguous();
  for (const Place& place : places_.at(input)) {
    std::vector<float>& row = rows[place.completion];
    if (place.state < row.size()) row[place.state] += host.data_ptr<float>()[place.token];
  }
}

at::Tensor CompletionStates::Spread(size_t input, int64_t tokens, std::span<const std::vector<float>> rows) const {
  const at::Tensor spread = at::zeros({tokens}, at::kFloat);
  for (const Place& place : places_.at(input)) {
    const std::vector<float>& row = rows[place.completion];
    if (place.state < row.size()) spread.data_ptr<float>()[place.token] = row[place.state];
  }
  return spread;
}

at::Tensor CompletionStates::PositionsIn(size_t input, std::span<const std::vector<float>> rows) const {
  std::vector<int64_t> positions;
  for (const Place& place : places_.at(input)) {
    if (place.state < rows[place.completion].size()) positions.push_back(place.token);
  }
  return at::tensor(positions, at::kLong);
}

at::Tensor CompletionStates::NumbersIn(size_t input, std::span<const std::vector<float>> rows) const {
  std::vector<float> numbers;
  for (const Place& place : places_.at(input)) {
    const std::vector<float>& row = rows[place.completion];
    if (place.state < row.size()) numbers.push_back(row[place.state]);
  }
  return at::tensor(numbers, at::kFloat);
}

TokenNumbers ZerosFor(std::span<const Rollout> rollouts, size_t more) {
  TokenNumbers table;
  for (const Rollout& rollout : rollouts) table.emplace_back(rollout.completion_ids.size() + more, 0.0F);
  return table;
}

}  // namespace trireme
