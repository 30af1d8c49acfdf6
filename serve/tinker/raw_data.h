// RawLoss: the data and the loss of a forward_backward as a client sent them, in either dialect, before anything is
// checked against a model. loss_request.h checks; json_data.h and proto_data.h read.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "web/http/http.h"

namespace trireme::tinker {

struct RawTensor {
  bool integers = false;
  std::vector<double> values = {};  // row-major; ids of tokens are exact
  std::vector<int64_t> shape = {};  // one or two dims
};

struct RawDatum {
  std::vector<int64_t> tokens = {};
  std::map<std::string, RawTensor> inputs = {};
};

struct RawLoss {
  std::vector<RawDatum> data = {};
  std::string loss_fn = {};
  std::map<std::string, double> config = {};
};

constexpr int64_t kMostColumns = 1024;  // targets per token: each is a pass over the sequence

// What sparse tensors of a request may become: a few bytes can stand for a huge dense one.
struct DenseBudget {
  int64_t tokens = 0;                // of the datum that is read: the rows of its tensors
  int64_t cells = int64_t{1} << 25;  // left for the whole request; as doubles no more than its body may have (256 MiB)
};

// A matrix of compressed rows as the dense one it stands for, which takes its cells from `budget`. `where` names it in
// errors.
RawTensor Densified(const RawTensor& values, const std::vector<int64_t>& row_starts,
                    const std::vector<int64_t>& columns, DenseBudget& budget, const std::string& where);

// Throws an ApiError of status 400 whose message is Concat's of the arguments.
[[noreturn]] void Refuse(const std::string& message);

}  // namespace trireme::tinker
