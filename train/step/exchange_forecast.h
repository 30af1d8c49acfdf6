// ExchangeForecast: from one training step to the next, the sizes in which this rank's layers exchange tokens between
// the ranks of their experts. After a pass its numbers travel to the host together with the loss, so that nobody waits
// for them; the host then knows whether all tokens had room, and what the next step is to expect.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "parallel/experts/expected_rows.h"
#include "parallel/pass/pending_sums.h"

namespace trireme {

class ExchangeForecast {
 public:
  // The name of the sum over ranks that is 0 if all tokens of the pass had room.
  static constexpr char kNoRoom[] = "no room";

  // `layers` outlives it.
  ExchangeForecast(std::map<std::string, ExpectedRows>& layers, at::Device device) : layers_(layers), device_(device) {}

  // After a pass: what this rank's layers exchanged at most. To be reduced, and given to Learn.
  RankNumbers Numbers();
  // `own` of these numbers, on the host.
  void Learn(std::span<const float> own);
  // The next pass has exact sizes.
  void Forget();

 private:
  std::map<std::string, ExpectedRows>& layers_;
  const at::Device device_;
  std::vector<ExpectedRows*> counted_;  // whose numbers are under way, in their order
};

}  // namespace trireme
