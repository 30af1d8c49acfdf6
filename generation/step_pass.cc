#include "generation/step_pass.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <array>

#include "core/tensor/device_copies.h"

namespace trireme {
namespace {

// The images of which a step computes any token. One that is cut goes through the tower in each of its steps.
class ImagesOfStep {
 public:
  explicit ImagesOfStep(const StepImages& images) : images_(images) {}

  // Of the tokens that the row's step adds.
  void Add(const RowStep& row, const PlacedImages* placed) {
    for (int axis = 0; axis < 3; ++axis) {
      for (int64_t i = row.past; i < row.past + row.fresh; ++i) {
        positions_[axis].push_back(placed == nullptr ? i : placed->Position(i, axis));
      }
    }
    token_of_.resize(token_of_.size() + static_cast<size_t>(row.fresh), -1);
    if (placed == nullptr) return;
    for (size_t image = 0; image < placed->spans().size(); ++image) AddImage(row, *placed, image);
  }

  // Padding is at position 0.
  void Fill(size_t size, PassInput& input) {
    for (std::vector<int64_t>& axis : positions_) axis.resize(size, 0);
    input.positions = at::tensor(positions_[0], at::kLong);
    if (tokens_ == 0) return;
    token_of_.resize(size, -1);
    input.image_positions =
        at::stack({input.positions, at::tensor(positions_[1], at::kLong), at::tensor(positions_[2], at::kLong)});
    input.images.token_of = at::tensor(token_of_, at::kLong);
    input.images.grids = grids_;
    input.images.contents = contents_;
    if (!patches_.empty()) input.images.patches = at::cat(patches_);
  }

 private:
  void AddImage(const RowStep& row, const PlacedImages& placed, size_t image) {
    const ContentSpan& span = placed.spans()[image];
    const int64_t begin = std::max(span.begin, row.past), end = std::min(span.end, row.past + row.fresh);
    if (begin >= end) return;
    const int64_t first = std::ssize(token_of_) - row.fresh - row.past;  // where the row's token 0 would be
    for (int64_t i = begin; i < end; ++i) token_of_[static_cast<size_t>(first + i)] = tokens_ + i - span.begin;
    tokens_ += span.end - span.begin;
    const ImageGrid& grid = placed.images().each[image].grid;
    grids_.push_back(grid);
    contents_.push_back(placed.images().each[image].content);
    if (!images_.patches) return;
    patches_.push_back(at::empty({grid.patches(), images_.elements}, at::kFloat));
    placed.images().write(image, patches_.back().data_ptr<float>());
  }

  const StepImages& images_;
  std::array<std::vector<int64_t>, 3> positions_;
  std::vector<int64_t> token_of_;  // which token of the step's images each is; -1: none
  int64_t tokens_ = 0;             // of the images, whole
  std::vector<ImageGrid> grids_;
  std::vector<ContentDigest> contents_;
  std::vector<at::Tensor> patches_;
};

}  // namespace

StepPass::StepPass(const std::vector<RowStep>& step, const Scheduler& scheduler, int64_t multiple,
                   const StepImages& images)
    : rows{.block_size = scheduler.options().block_size,
           .blocks = scheduler.pool().size(),
           .rows = {},
           .first_blocks = scheduler.FirstBlocks()} {
  std::vector<int64_t> tokens, lengths, last;
  ImagesOfStep seen(images);
  for (const RowStep& row : step) {
    const std::vector<int64_t>& known = scheduler.tokens(row.row);
    for (int64_t i = 0; i < row.scored; ++i) last.push_back(std::ssize(tokens) + i);
    rows.rows.push_back({.past = row.past, .fresh = row.fresh, .blocks = scheduler.blocks(row.row)});
    for (int64_t i = row.past; i < row.past + row.fresh; ++i) {
      tokens.push_back(known[static_cast<size_t>(i)]);
      lengths.push_back(std::ssize(known));
    }
    seen.Add(row, images.of ? images.of(row.row) : nullptr);
    if (row.samples) last.push_back(std::ssize(tokens) - 1);
  }
  std::vector<uint8_t> real(tokens.size(), 1);
  const size_t size = std::max<size_t>((tokens.size() + multiple - 1) / multiple, 1) * multiple;
  tokens.resize(size, 0);
  lengths.resize(size, 1);
  real.resize(size, 0);
  if (last.empty()) last.push_back(0);
  input.rows = 1;
  input.length = static_cast<int64_t>(size);
  input.tokens = at::tensor(tokens, at::kLong);
  seen.Fill(size, input);
  input.document_tokens = at::tensor(lengths, at::kLong);
  input.real = at::tensor(real, at::kByte).to(at::kBool);
  wanted = at::tensor(last, at::kLong);
}

void StepPass::MoveTo(const at::Device& device) {
  for (at::Tensor* tensor :
       {&input.tokens, &input.positions, &wanted, &input.real, &input.image_positions, &input.images.patches})
    if (tensor->defined()) *tensor = Upload(*tensor, device);
}

}  // namespace trireme
