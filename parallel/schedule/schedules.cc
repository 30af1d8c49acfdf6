// The list of schedules. A new one is a file with its function and a line here: name, function, description
// for the help.
#include "parallel/schedule/schedules.h"

#include "core/base/error.h"
#include "core/base/text.h"
#include "parallel/schedule/insert_messages.h"
#include "parallel/schedule/insert_parameters.h"
#include "parallel/schedule/verify.h"

// clang-format off
#define TRIREME_SCHEDULES(SCHEDULE)                                                                            \
  SCHEDULE("1f1b", OneFOneB, "one forward, one backward")                                                      \
  SCHEDULE("interleaved", Interleaved, "1f1b over several stages per rank: smaller bubble, more messages")     \
  SCHEDULE("zero_bubble", ZeroBubble, "weight gradients are deferred to fill the bubble")                      \
  SCHEDULE("dualpipev", DualPipeV, "two stages per rank, folded into a V; forward and backward overlap")
// clang-format on

namespace trireme {

#define DECLARE(name, function, meaning) ComputeOrder function(const PipelineShape& shape);
TRIREME_SCHEDULES(DECLARE)
#undef DECLARE

namespace {

struct NamedSchedule {
  std::string_view name, meaning;
  ComputeOrder (*order)(const PipelineShape&);
};

#define LIST(name, function, meaning) {name, meaning, function},
constexpr NamedSchedule kSchedules[] = {TRIREME_SCHEDULES(LIST)};
#undef LIST

const NamedSchedule& Find(std::string_view name) {
  for (const NamedSchedule& schedule : kSchedules) {
    if (schedule.name == name) return schedule;
  }
  throw InputError("unknown schedule '", name, "'; wanted one of ",
                   Join(kSchedules, ", ", [](const NamedSchedule& schedule) { return schedule.name; }));
}

}  // namespace

std::vector<std::string> ScheduleNames() {
  std::vector<std::string> names;
  for (const NamedSchedule& schedule : kSchedules) names.emplace_back(schedule.name);
  return names;
}

std::vector<std::string> ScheduleMeanings() {
  std::vector<std::string> meanings;
  for (const NamedSchedule& schedule : kSchedules) meanings.emplace_back(schedule.meaning);
  return meanings;
}

ComputeOrder MakeComputeOrder(std::string_view name, const PipelineShape& shape) {
  const NamedSchedule& schedule = Find(name);
  if (shape.ranks < 1) throw InputError("pipeline = ", shape.ranks, "; wanted at least 1");
  if (shape.micro_batches < 1) throw InputError(shape.micro_batches, " micro batches; wanted at least 1");
  return schedule.order(shape);
}

Schedule MakeSchedule(std::string_view name, const PipelineShape& shape, int zero) {
  const ComputeOrder order = MakeComputeOrder(name, shape);
  Schedule schedule = InsertParameterActions(InsertMessages(std::string(name), order), zero);
  const std::optional<std::string> fault = FindFault(schedule);
  TRIREME_CHECK(!fault) << "schedule " << name << ", " << shape.ranks << " ranks, " << shape.micro_batches
                        << " micro batches, " << shape.virtual_stages << " virtual stages: " << *fault;
  return schedule;
}

}  // namespace trireme
