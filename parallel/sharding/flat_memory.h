// FlatMemory: a flat tensor whose memory can be freed and reallocated while its views stay valid, so that
// operators keep their weights while a layer's values or gradients are only temporarily in memory. A view
// without memory points to null: using it ends the process instead of silently corrupting anything.
#pragma once

#include <ATen/core/Tensor.h>

#include "parallel/sharding/pieces.h"

namespace trireme {

class FlatMemory {
 public:
  FlatMemory() = default;
  // Starts without memory.
  FlatMemory(int64_t elements, at::ScalarType type, at::Device device);

  const at::Tensor& tensor() const { return tensor_; }  // [elements]; always the same tensor
  bool held() const { return held_; }
  int64_t held_bytes() const;

  // Allocates memory if there is none: uninitialised, or zeroed.
  void Hold();
  void HoldZeros();
  // Transfers the memory: the result owns it, with its content, and frees it.
  at::Tensor Release();

 private:
  void Take(const at::Tensor& fresh);

  at::Tensor tensor_;
  bool held_ = false;
};

// The elements of `flat` in `piece`, with the piece's shape.
at::Tensor View(const at::Tensor& flat, const Piece& piece);

}  // namespace trireme
