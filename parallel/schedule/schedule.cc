// The text of a table.
#include "parallel/schedule/schedule.h"

#include <sstream>

namespace trireme {

std::string StepText(const Step& step) {
  std::string text;
  for (const Action& action : step) text += (text.empty() ? "" : ", ") + action.ToText();
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
