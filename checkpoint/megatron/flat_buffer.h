// The flat buffers in which Megatron's distributed optimizer has the parameters of a rank: their elements, and which
// parameter lies where. Files do not say that, so it is found by the parameters' own values: masters rounded to the
// weights' type are the weights. Where values are equal, as in norms of a new model, the order of the modules decides.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "checkpoint/pickle/torch_file.h"
#include "core/plan/box.h"
#include "core/plan/dtype.h"

namespace trireme {

class FlatBuffer {
 public:
  // `count` elements from `begin` on; `open` gives them as a tensor of one dim.
  void Add(int64_t begin, int64_t count, std::function<StridedTensor()> open);

  int64_t size() const;
  // Row-major fp32. Refuses elements that no part has, in `where`.
  void Read(int64_t begin, int64_t count, float* target, const std::string& where) const;
  // The same elements where one part has all of them; otherwise a tensor without data.
  StridedTensor View(int64_t begin, int64_t count) const;

 private:
  struct Part {
    int64_t begin, count;
    std::function<StridedTensor()> open;
  };
  std::vector<Part> parts_;
};

// A rank's part of a parameter.
struct LocalParameter {
  std::string name;
  DType dtype = DType::kFp32;
  Shape shape;
  std::function<void(void* target)> read;  // row-major, in its dtype
};

struct FoundParameter {
  size_t parameter = 0;  // in the list
  int64_t begin = 0;     // in the buffer
};

// `parameters` in the order of the rank's modules, whose reverse is that of the buffer; it may have others, too.
// `buckets`: where buckets begin, as far as is known. Refuses a buffer with elements that are no parameter's.
std::vector<FoundParameter> FindParameters(const FlatBuffer& masters, const std::vector<LocalParameter>& parameters,
                                           const std::vector<int64_t>& buckets, const std::string& where);

}  // namespace trireme
