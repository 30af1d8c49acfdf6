// ExpectedRows: how many rows the host expects the ranks of a group to exchange in one layer, so that it can post the
// exchange without waiting for what routers choose. Learnt from the largest numbers of the steps before, which the
// device collects; whether they were enough is known afterwards. Which row goes where: expected_exchange.h.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

namespace trireme {

class ExpectedRows {
 public:
  // [ranks, ep]: room for the rows that each rank sends to the ranks of each ep-th of the experts; empty: not known,
  // sizes are exact.
  const std::vector<int64_t>& rooms() const { return rooms_; }

  // counts: [ranks, ep] int64 on the device, of a micro batch; a recomputed one counts once.
  void Observe(const at::Tensor& counts);
  // The largest since Learn, [ranks · ep]; undefined: none.
  const at::Tensor& largest() const { return largest_; }

  // What `largest` turned out to be makes the rooms of the next pass.
  void Learn(std::span<const float> largest);
  // The next pass has exact sizes.
  void Forget() { rooms_.clear(); }

 private:
  at::Tensor largest_;
  std::vector<int64_t> seen_;  // the largest of all steps, of which each later one forgets a little
  std::vector<int64_t> rooms_;
};

}  // namespace trireme
