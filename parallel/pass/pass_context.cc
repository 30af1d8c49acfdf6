#include "parallel/pass/pass_context.h"

#include "core/base/error.h"

namespace trireme {

PassContext::PassContext(const PassInput& input, const PassOptions& options, const BatchTotals& totals,
                         PassOutput* output)
    : input(input), options(options), totals(totals), output(output) {
  TRIREME_CHECK(totals.mtp.size() == input.mtp.size())
      << "totals for " << totals.mtp.size() << " mtp depths, inputs for " << input.mtp.size();
  for (size_t i = 0; i < input.mtp.size(); ++i) {
    mtp_.push_back(std::make_unique<PassContext>(input.mtp[i], options, totals.mtp.at(i), nullptr));
  }
}

const RotaryTable& PassContext::TableFor(const std::vector<double>& frequencies, double magnitude) {
  std::vector<double> key = frequencies;
  key.push_back(magnitude);
  RotaryTable& table = tables_[key];
  if (table.cosine.defined()) return table;
  table = MakeRotaryTable(input.positions, frequencies);
  if (magnitude != 1) table = {table.cosine * magnitude, table.sine * magnitude};
  return table;
}

}  // namespace trireme
