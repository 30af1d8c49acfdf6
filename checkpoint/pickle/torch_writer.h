// TorchFileWriter: a file of torch.save without Python: a pickle, and the tensors' elements that it refers to. Reading
// is torch_file.h's.
#pragma once

#include <cstdint>
#include <string>

#include "checkpoint/pickle/zip_writer.h"
#include "core/plan/box.h"
#include "core/plan/dtype.h"

namespace trireme {

// A tensor on the CPU whose elements are the file's storage of this number, for the file's pickle.
std::string PickledTensor(DType dtype, const Shape& shape, int64_t storage);
// "torch.bfloat16" as a value.
std::string PickledType(DType dtype);

class TorchFileWriter {
 public:
  // `value`: pickled. `top`: the name that torch.save takes from the file's, or "archive". No `sink`: only counts.
  TorchFileWriter(ByteSink sink, const std::string& top, const std::string& value);

  // The elements of the next storage, from number 0 on; `data` may be nullptr where only bytes are counted.
  void Add(const void* data, uint64_t bytes);
  uint64_t Close();  // the file's length

 private:
  ZipWriter zip_;
  int64_t storages_ = 0;
};

}  // namespace trireme
