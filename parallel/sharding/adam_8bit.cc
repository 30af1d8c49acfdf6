// AdamW with moments of 8 bits (optimizer.moments 8bit), by bitsandbytes' numbers: 256 consecutive elements of a tensor
// share a scale, the largest magnitude among them, and each is the nearest of 256 values between -1 and 1. Small
// tensors have moments in fp32.
#include <ATen/ATen.h>

#include <cmath>

#include "core/packing/codes.h"
#include "parallel/sharding/whole_tensors.h"
#include "parallel/sharding/wide_master.h"

namespace trireme {
namespace {

constexpr int64_t kBlock = 256, kLeastCoded = 4096;
constexpr double kLeastBlockScale = 1e-38;
constexpr char kFirstWide[] = "exp_avg_fp32", kSecondWide[] = "exp_avg_sq_fp32";
constexpr char kFirstScale[] = "exp_avg_absmax", kSecondScale[] = "exp_avg_sq_absmax";

bool HasCodes(const Shape& shape) { return Elements(shape) >= kLeastCoded; }

int64_t BlocksIn(const Shape& shape) { return (Elements(shape) + kBlock - 1) / kBlock; }

// Codes of one of the two moments.
struct CodeMap {
  at::Tensor values;   // [256]
  at::Tensor middles;  // [255]: between neighbours

  CodeMap(bool negative, at::Device device) {
    values = at::tensor(DynamicMap(negative)).to(device);
    middles = (values.narrow(0, 0, values.size(0) - 1) + values.narrow(0, 1, values.size(0) - 1)) / 2;
  }
};

// A moment at a piece, in fp32 while it is updated.
struct WideMoment {
  at::Tensor values, blocks;  // [elements]
};

// The block of each of the piece's elements in its tensor, [elements] int64.
at::Tensor BlocksOf(const ShardPiece& piece, const Shape& shape, at::Device device) {
  at::Tensor index = at::zeros({1}, at::TensorOptions(at::kLong).device(device));
  for (size_t dim = 0; dim < shape.size(); ++dim) {
    const at::Tensor own =
        at::arange(piece.box.offset[dim], piece.box.offset[dim] + piece.box.extent[dim], index.options());
    index = (index.unsqueeze(1) * shape[dim] + own).flatten();
  }
  return index.div(kBlock, "floor");
}

at::Tensor Decoded(const at::Tensor& codes, const at::Tensor& scales, const at::Tensor& blocks, const CodeMap& map) {
  return map.values.index_select(0, codes.flatten().to(at::kLong)) * scales.index_select(0, blocks);
}

void Encode(const WideMoment& moment, const at::Tensor& scales, const CodeMap& map, const at::Tensor& codes) {
  const at::Tensor parts = moment.values / scales.index_select(0, moment.blocks).clamp_min(kLeastBlockScale);
  codes.copy_(at::bucketize(parts, map.middles).view(codes.sizes()));
}

// New moments, and the weights with them. All of the same shape.
void UpdateElements(const at::Tensor& first, const at::Tensor& second, const at::Tensor& gradient,
                    const at::Tensor& master, const UpdateNumbers& numbers) {
  const double correction1 = 1 - std::pow(numbers.beta1, static_cast<double>(numbers.step));
  const double correction2 = std::sqrt(1 - std::pow(numbers.beta2, static_cast<double>(numbers.step)));
  at::Tensor(first).mul_(numbers.beta1).add_(gradient, 1 - numbers.beta1);
  at::Tensor(second).mul_(numbers.beta2).addcmul_(gradient, gradient, 1 - numbers.beta2);
  const at::Tensor denominator = (second.sqrt() / correction2).add_(numbers.eps);
  at::Tensor(master)
      .mul_(1 - numbers.lr * numbers.weight_decay)
      .addcdiv_(first, denominator, -numbers.lr / correction1);
}

// One bucket's update.
class Adam8BitStep {
 public:
  Adam8BitStep(const std::vector<WholeTensor>& tensors, const UpdateTensors& shard, const UpdateNumbers& numbers)
      : tensors_(tensors),
        shard_(shard),
        numbers_(numbers),
        master_(shard),
        gradient_(shard.gradient * numbers.gradient_scale),
        maps_{CodeMap(/*negative=*/true, gradient_.device()), CodeMap(/*negative=*/false, gradient_.device())} {}

  void Run(Communicator& stage) {
    UpdateSmall(stage);
    std::vector<at::Tensor> scales;
    for (const WholeTensor& tensor : tensors_) {
      if (!HasCodes(tensor.shard.file->shape)) continue;
      UpdateLarge(tensor);
      scales.insert(scales.end(), {tensor.State(kFirstScale), tensor.State(kSecondScale)});
    }
    AllReduceTogether(scales, stage, ReduceOp::kMax);
    size_t next = 0;
    for (const WholeTensor& tensor : tensors_) {
      if (!HasCodes(tensor.shard.file->shape)) continue;
      for (const ShardPiece& piece : tensor.shard.pieces) EncodePiece(tensor, piece, next++);
    }
    master_.Store();
  }

 private:
  UpdateNumbers NumbersFor(const WholeTensor& tensor) const {
    UpdateNumbers numbers = numbers_;
    numbers.lr *= tensor.lr_factor;
    if (!tensor.decayed) numbers.weight_decay = 0;
    return numbers;
  }

  // Every rank has their moments whole, and updates all of them.
  void UpdateSmall(Communicator& stage) {
    std::vector<const WholeTensor*> small;
    std::vector<at::Tensor> gradients;
    for (const WholeTensor& tensor : tensors_) {
      const Shape& shape = tensor.shard.file->shape;
      if (HasCodes(shape)) continue;
      const at::Tensor whole = at::zeros(shape, gradient_.options());
      for (const ShardPiece& piece : tensor.shard.pieces) {
        if (piece.owned) piece.In(whole).copy_(piece.Of(gradient_));
      }
      small.push_back(&tensor);
      gradients.push_back(whole);
    }
    AllReduceTogether(gradients, stage);
    for (size_t i = 0; i < small.size(); ++i) {
      const at::Tensor weights = at::zeros_like(gradients[i]);
      for (const ShardPiece& piece : small[i]->shard.pieces) piece.In(weights).copy_(piece.Of(master_.values()));
      UpdateElements(small[i]->State(kFirstWide), small[i]->State(kSecondWide), gradients[i], weights,
                     NumbersFor(*small[i]));
      for (const ShardPiece& piece : small[i]->shard.pieces) piece.Of(master_.values()).copy_(piece.In(weights));
    }
  }

  // The scales become the largest magnitudes on this rank.
  void UpdateLarge(const WholeTensor& tensor) {
    const at::Tensor first_scale = tensor.State(kFirstScale), second_scale = tensor.State(kSecondScale);
    const at::Tensor before[2] = {first_scale.clone(), second_scale.clone()};
    first_scale.zero_();
    second_scale.zero_();
    for (const ShardPiece& piece : tensor.shard.pieces) {
      const at::Tensor blocks = BlocksOf(piece, tensor.shard.file->shape, gradient_.device());
      const at::Tensor first = Decoded(piece.Of(shard_.states[0]), before[0], blocks, maps_[0]);
      const at::Tensor second = Decoded(piece.Of(shard_.states[1]), before[1], blocks, maps_[1]);
      const at::Tensor weights = piece.Of(master_.values()), flat = weights.contiguous().view(-1);
      UpdateElements(first, second, piece.Of(gradient_).contiguous().view(-1), flat, NumbersFor(tensor));
      if (!flat.is_alias_of(weights)) weights.copy_(flat.view(weights.sizes()));
      at::Tensor(first_scale).scatter_reduce_(0, blocks, first.abs(), "amax");
      at::Tensor(second_scale).scatter_reduce_(0, blocks, second, "amax");
      moments_[0].push_back({first, blocks});
      moments_[1].push_back({second, blocks});
    }
  }

  void EncodePiece(const WholeTensor& tensor, const ShardPiece& piece, size_t index) const {
    Encode(moments_[0][index], tensor.State(kFirstScale), maps_[0], piece.Of(shard_.states[0]));
    Encode(moments_[1][index], tensor.State(kSecondScale), maps_[1], piece.Of(shard_.states[1]));
  }

  const std::vector<WholeTensor>& tensors_;
  const UpdateTensors& shard_;
  const UpdateNumbers& numbers_;
  const WideMaster master_;
  const at::Tensor gradient_;
  const CodeMap maps_[2];
  std::vector<WideMoment> moments_[2];  // of all pieces, in order
};

}  // namespace

StateShapes Adam8BitStates(const Shape& shape) {
  if (!HasCodes(shape)) return {{kFirstWide, shape}, {kSecondWide, shape}};
  return {{kFirstScale, {BlocksIn(shape)}}, {kSecondScale, {BlocksIn(shape)}}};
}

void StepAdam8Bit(const std::vector<WholeTensor>& tensors, const UpdateTensors& shard, const UpdateNumbers& numbers,
                  Communicator& stage) {
  Adam8BitStep(tensors, shard, numbers).Run(stage);
}

}  // namespace trireme
