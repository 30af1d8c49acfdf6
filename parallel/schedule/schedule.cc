// The text of a table.
#include "parallel/schedule/schedule.h"

#include <sstream>

#include "core/base/text.h"

namespace trireme {

std::string StepText(const Step& step) {
  const std::string text = Join(step, ", ", [](const Action& action) { return action.ToText(); });
  const bool is_batch = !step.empty() && step.front().is_message();
  return is_batch ? "{" + text + "}" : text;
}

std::string Schedule::ToText() const {
  std::ostringstream text;
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    text << "rank " << rank << ":";
    for (const Step& step : ranks[rank]) text << ' ' << StepText(step);
    text << '\n';
  }
  return text.str();
}

}  // namespace trireme
