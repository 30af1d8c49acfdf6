#include "parallel/sharding/flat_memory.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <utility>

#include "core/base/error.h"

namespace trireme {
namespace {

// A tensor over a storage that has its size, but no memory: views of it can be created. Allocates once and
// frees immediately, since a device's library may attach its own data to each storage that it creates.
at::Tensor Hollow(int64_t elements, at::TensorOptions options) {
  at::Tensor tensor = at::empty({elements}, options);
  tensor.storage().set_data_ptr_noswap(at::DataPtr(nullptr, tensor.device()));
  return tensor;
}

void MoveMemory(const at::Tensor& from, const at::Tensor& to) {
  at::DataPtr memory = from.storage().set_data_ptr(at::DataPtr(nullptr, from.device()));
  to.storage().set_data_ptr_noswap(std::move(memory));
}

}  // namespace

FlatMemory::FlatMemory(int64_t elements, at::ScalarType type, at::Device device)
    : tensor_(Hollow(elements, at::TensorOptions(type).device(device))) {}

int64_t FlatMemory::held_bytes() const { return held_ ? tensor_.numel() * tensor_.element_size() : 0; }

void FlatMemory::Hold() {
  if (!held_) Take(at::empty({tensor_.numel()}, tensor_.options()));
}

void FlatMemory::HoldZeros() {
  if (!held_) Take(at::zeros({tensor_.numel()}, tensor_.options()));
}

void FlatMemory::Take(const at::Tensor& fresh) {
  MoveMemory(fresh, tensor_);
  held_ = true;
}

at::Tensor FlatMemory::Release() {
  TRIREME_CHECK(held_) << "memory of " << tensor_.numel() << " elements is already released";
  at::Tensor released = Hollow(tensor_.numel(), tensor_.options());
  MoveMemory(tensor_, released);
  held_ = false;
  return released;
}

at::Tensor View(const at::Tensor& flat, const Piece& piece) {
  return flat.as_strided(piece.extent, piece.strides, flat.storage_offset() + piece.offset);
}

}  // namespace trireme
