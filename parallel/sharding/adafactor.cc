// The optimizer adafactor, by the rule of transformers' Adafactor without a first moment: squared gradients of a matrix
// are kept as means over its rows and its columns.
#include <ATen/ATen.h>

#include <cmath>

#include "core/base/error.h"
#include "parallel/sharding/whole_tensors.h"
#include "parallel/sharding/wide_master.h"

namespace trireme {
namespace {

constexpr char kRows[] = "exp_avg_sq_row", kColumns[] = "exp_avg_sq_col", kElements[] = "exp_avg_sq";
constexpr double kLeastSquare = 1e-30, kLeastRate = 1e-3;

bool IsFactored(const Shape& shape) { return shape.size() == 2; }

// What an update needs of a whole tensor.
struct TensorMeans {
  at::Tensor rows, columns;   // sums of squared gradients, of a matrix
  at::Tensor squares;         // of another tensor: each
  at::Tensor weight, update;  // [1]: sums of squares
};

TensorMeans EmptyMeans(const Shape& shape, const at::TensorOptions& options) {
  TensorMeans means{.weight = at::zeros({1}, options), .update = at::zeros({1}, options)};
  if (IsFactored(shape)) {
    means.rows = at::zeros({shape[0]}, options);
    means.columns = at::zeros({shape[1]}, options);
  } else {
    means.squares = at::zeros(shape, options);
  }
  return means;
}

void AddPiece(const ShardPiece& piece, const at::Tensor& gradient, const at::Tensor& master, const TensorMeans& means) {
  const at::Tensor squares = piece.Of(gradient).square() + kLeastSquare;
  at::Tensor(means.weight).add_(piece.Of(master).square().sum());
  if (means.squares.defined()) {
    piece.In(means.squares).copy_(squares);
    return;
  }
  means.rows.narrow(0, piece.box.offset[0], piece.box.extent[0]).add_(squares.sum(1));
  means.columns.narrow(0, piece.box.offset[1], piece.box.extent[1]).add_(squares.sum(0));
}

void MoveMean(const at::Tensor& mean, const at::Tensor& now, double kept) {
  at::Tensor(mean).mul_(kept).add_(now, 1 - kept);
}

void MoveMeans(const WholeTensor& tensor, const TensorMeans& means, double kept) {
  const Shape& shape = tensor.shard.file->shape;
  if (!IsFactored(shape)) return MoveMean(tensor.State(kElements), means.squares, kept);
  MoveMean(tensor.State(kRows), means.rows / static_cast<double>(shape[1]), kept);
  MoveMean(tensor.State(kColumns), means.columns / static_cast<double>(shape[0]), kept);
}

// The gradient over the root of its mean square, at the piece.
at::Tensor DirectionOf(const WholeTensor& tensor, const ShardPiece& piece, const at::Tensor& gradient) {
  if (!IsFactored(tensor.shard.file->shape)) return piece.In(tensor.State(kElements)).rsqrt() * gradient;
  const at::Tensor rows = (tensor.State(kRows) / tensor.State(kRows).mean()).rsqrt();
  const at::Tensor columns = tensor.State(kColumns).rsqrt();
  return rows.narrow(0, piece.box.offset[0], piece.box.extent[0]).unsqueeze(1) *
         columns.narrow(0, piece.box.offset[1], piece.box.extent[1]) * gradient;
}

at::Tensor RootMean(const at::Tensor& sum, const Shape& shape) {
  return (sum / static_cast<double>(Elements(shape))).sqrt();
}

// One bucket's update.
class AdafactorStep {
 public:
  AdafactorStep(const std::vector<WholeTensor>& tensors, const UpdateTensors& shard, const UpdateNumbers& numbers,
                const AdafactorOptions& options)
      : tensors_(tensors),
        numbers_(numbers),
        options_(options),
        master_(shard),
        gradient_(shard.gradient * numbers.gradient_scale),
        direction_(at::zeros_like(gradient_)) {}

  void Run(Communicator& stage) {
    AllReduceTogether(SumsOfShare(), stage);
    AllReduceTogether(FindDirections(), stage);
    for (size_t i = 0; i < tensors_.size(); ++i) UpdateTensor(tensors_[i], means_[i]);
    master_.Store();
  }

 private:
  std::vector<at::Tensor> SumsOfShare() {
    std::vector<at::Tensor> sums;
    for (const WholeTensor& tensor : tensors_) {
      const TensorMeans& own = means_.emplace_back(EmptyMeans(tensor.shard.file->shape, gradient_.options()));
      for (const ShardPiece& piece : tensor.shard.pieces) {
        if (piece.owned) AddPiece(piece, gradient_, master_.values(), own);
      }
      for (const at::Tensor& sum : {own.rows, own.columns, own.squares, own.weight}) {
        if (sum.defined()) sums.push_back(sum);
      }
    }
    return sums;
  }

  // Returns the sums of their squares.
  std::vector<at::Tensor> FindDirections() {
    const double kept = 1 - std::pow(static_cast<double>(numbers_.step), -options_.decay);
    std::vector<at::Tensor> sums;
    for (size_t i = 0; i < tensors_.size(); ++i) {
      MoveMeans(tensors_[i], means_[i], kept);
      for (const ShardPiece& piece : tensors_[i].shard.pieces) {
        const at::Tensor now = DirectionOf(tensors_[i], piece, piece.Of(gradient_));
        piece.Of(direction_).copy_(now);
        if (piece.owned) means_[i].update.add_(now.square().sum());
      }
      sums.push_back(means_[i].update);
    }
    return sums;
  }

  void UpdateTensor(const WholeTensor& tensor, const TensorMeans& means) const {
    const Shape& shape = tensor.shard.file->shape;
    at::Tensor rate = at::full({1}, numbers_.lr * tensor.lr_factor, gradient_.options());
    if (options_.scale_parameter) rate = rate * RootMean(means.weight, shape).clamp_min(kLeastRate);
    const at::Tensor clip = (RootMean(means.update, shape) / options_.clip).clamp_min(1);
    const double decay = tensor.decayed ? numbers_.weight_decay : 0;
    for (const ShardPiece& piece : tensor.shard.pieces) {
      at::Tensor weights = piece.Of(master_.values());
      if (decay > 0) weights.mul_(1 - rate * decay);
      weights.sub_(piece.Of(direction_) / clip * rate);
    }
  }

  const std::vector<WholeTensor>& tensors_;
  const UpdateNumbers& numbers_;
  const AdafactorOptions& options_;
  const WideMaster master_;
  const at::Tensor gradient_, direction_;  // [shard]
  std::vector<TensorMeans> means_;
};

}  // namespace

StateShapes AdafactorStates(const Shape& shape) {
  if (!IsFactored(shape)) return {{kElements, shape}};
  return {{kRows, {shape[0]}}, {kColumns, {shape[1]}}};
}

void StepAdafactor(const std::vector<WholeTensor>& tensors, const UpdateTensors& shard, const UpdateNumbers& numbers,
                   const AdafactorOptions& options, Communicator& stage) {
  AdafactorStep(tensors, shard, numbers, options).Run(stage);
}

// Every parameter's update is StepAdafactor's.
void UpdateAdafactor(const UpdateTensors& /*tensors*/, const UpdateNumbers& /*numbers*/) {
  TRIREME_CHECK(false) << "adafactor updates whole tensors";
}

}  // namespace trireme
