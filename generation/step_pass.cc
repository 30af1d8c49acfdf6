#include "generation/step_pass.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "core/tensor/device_copies.h"

namespace trireme {

StepPass::StepPass(const std::vector<RowStep>& step, const Scheduler& scheduler, int64_t multiple)
    : rows{.block_size = scheduler.options().block_size, .blocks = scheduler.pool().size(), .rows = {},
           .first_blocks = scheduler.FirstBlocks()} {
  std::vector<int64_t> tokens, positions, lengths, last;
  for (const RowStep& row : step) {
    const std::vector<int64_t>& known = scheduler.tokens(row.row);
    rows.rows.push_back({.past = row.past, .fresh = row.fresh, .blocks = scheduler.blocks(row.row)});
    for (int64_t i = row.past; i < row.past + row.fresh; ++i) {
      tokens.push_back(known[static_cast<size_t>(i)]);
      positions.push_back(i);
      lengths.push_back(std::ssize(known));
    }
    if (row.samples) last.push_back(std::ssize(tokens) - 1);
  }
  std::vector<uint8_t> real(tokens.size(), 1);
  const size_t size = std::max<size_t>((tokens.size() + multiple - 1) / multiple, 1) * multiple;
  tokens.resize(size, 0);
  positions.resize(size, 0);
  lengths.resize(size, 1);
  real.resize(size, 0);
  if (last.empty()) last.push_back(0);
  input.rows = 1;
  input.length = static_cast<int64_t>(size);
  input.tokens = at::tensor(tokens, at::kLong);
  input.positions = at::tensor(positions, at::kLong);
  input.document_tokens = at::tensor(lengths, at::kLong);
  input.real = at::tensor(real, at::kByte).to(at::kBool);
  wanted = at::tensor(last, at::kLong);
}

void StepPass::MoveTo(const at::Device& device) {
  for (at::Tensor* tensor : {&input.tokens, &input.positions, &wanted, &input.real})
    *tensor = Upload(*tensor, device);
}

}  // namespace trireme
