#include "train/step/rank_sums.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "parallel/tensor/collectives.h"

namespace trireme {

void SumOverRanks(std::vector<float>& values, Session& session) {
  const at::Tensor sums = at::tensor(values, at::kFloat).to(session.tensors().torch());
  AllReduce(sums, session.world());
  const at::Tensor host = sums.to(at::kCPU);
  std::copy_n(host.data_ptr<float>(), values.size(), values.begin());
}

std::vector<double> SumOverRanks(const std::vector<double>& values, Session& session) {
  std::vector<float> sums(values.begin(), values.end());
  SumOverRanks(sums, session);
  return {sums.begin(), sums.end()};
}

void SumOverRanks(std::vector<std::vector<float>>& rows, Session& session) {
  std::vector<float> flat;
  for (const std::vector<float>& row : rows) flat.insert(flat.end(), row.begin(), row.end());
  SumOverRanks(flat, session);
  auto next = flat.cbegin();
  for (std::vector<float>& row : rows) {
    std::copy_n(next, row.size(), row.begin());
    next += static_cast<std::ptrdiff_t>(row.size());
  }
}

}  // namespace trireme
