// TorchFile: a file of torch.save (torch 1.6 or newer): its values without their tensors' elements, and each tensor as
// a strided view of the file's own bytes. Executes nothing (reader.h), copies nothing.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "checkpoint/pickle/reader.h"
#include "checkpoint/pickle/zip.h"
#include "core/plan/box.h"
#include "core/plan/dtype.h"

namespace trireme {

struct StridedTensor {
  DType dtype = DType::kFp32;
  Shape shape;
  Shape strides;  // in elements
  const void* data = nullptr;
};

class TorchFile {
 public:
  // The bytes outlive it and its tensors; `where` is the file, for messages.
  TorchFile(std::span<const std::byte> bytes, std::string where);

  const PickleValue& root() const { return pickle_.root(); }
  // Nothing if the value is no tensor. Refuses one whose elements lie outside its storage.
  std::optional<StridedTensor> TensorOf(const PickleValue& value) const;

 private:
  StridedTensor Rebuild(const PickleValue& arguments, bool typed_by_argument) const;

  std::string where_;
  ZipDirectory zip_;
  Pickle pickle_;
};

// The dtype by torch's name, "torch.bfloat16" or "torch.BFloat16Storage"; nothing if it is none of ours.
std::optional<DType> TorchDType(const std::string& name);
// The inverse; a type without a storage of its own has an empty one.
std::string_view TorchName(DType dtype);
std::string_view TorchStorage(DType dtype);
// Of a tuple or list of integers; nothing if it is something else.
std::optional<Shape> IntegersOf(const PickleValue& value);

}  // namespace trireme
