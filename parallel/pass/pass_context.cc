#include "parallel/pass/pass_context.h"

#include "core/base/error.h"
#include "ops/low_rank/low_rank.h"

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

const RotaryTable& PassContext::TableFor(const Rotation& rotation) {
  RotaryTable& table = tables_[rotation.key()];
  if (!table.cosine.defined()) table = rotation.TableOf(input);
  return table;
}

std::shared_ptr<const AdapterSlots> PassContext::Slots() {
  if (!slots_ && input.slot_of.defined()) {
    slots_ = std::make_shared<const AdapterSlots>(input.adapter_slots, input.slot_of, input.tokens.device());
  }
  return slots_;
}

}  // namespace trireme
