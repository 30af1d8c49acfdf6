// FlatMemory: a flat tensor whose memory can go and come back while views of it stay what they are, so that
// operators keep their weights when a layer's values or gradients are whole only for a while. A view whose
// memory is gone points to null: using it ends the process, and loses or spoils nothing silently.
#pragma once

#include <ATen/core/Tensor.h>

#include "parallel/sharding/pieces.h"

namespace trireme {

class FlatMemory {
 public:
  FlatMemory() = default;
  // Without memory at first.
  FlatMemory(int64_t elements, at::ScalarType type, at::Device device);

  const at::Tensor& tensor() const { return tensor_; }  // [elements]; never another one
  bool held() const { return held_; }
  int64_t held_bytes() const;

  // Memory, where there is none: of any content, or zeroed.
  void Hold();
  void HoldZeros();
  // Hands the memory over: the result has it now, with its content, and frees it.
  at::Tensor Release();

 private:
  void Take(const at::Tensor& fresh);

  at::Tensor tensor_;
  bool held_ = false;
};

// The elements of `flat` that the piece names, in the piece's shape.
at::Tensor View(const at::Tensor& flat, const Piece& piece);

}  // namespace trireme
