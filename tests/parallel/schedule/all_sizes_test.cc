// Every schedule, for 1 to 16 ranks and 1 to 64 micro batches, passes the verifier; so do its zero levels.
#include <gtest/gtest.h>

#include "parallel/schedule/insert_messages.h"
#include "parallel/schedule/insert_parameters.h"
#include "parallel/schedule/schedules.h"
#include "parallel/schedule/verify.h"

namespace trireme {
namespace {

struct Case {
  const char* schedule;
  int virtual_stages;
};

void PrintTo(const Case& value, std::ostream* out) { *out << value.schedule << " x" << value.virtual_stages; }

class AllSizes : public testing::TestWithParam<Case> {};

TEST_P(AllSizes, Verified) {
  int tables = 0;
  for (int ranks = 1; ranks <= 16; ++ranks) {
    for (int micro_batches = 1; micro_batches <= 64; ++micro_batches) {
      const PipelineShape shape{ranks, micro_batches, GetParam().virtual_stages};
      const Schedule schedule = InsertMessages(GetParam().schedule, MakeComputeOrder(GetParam().schedule, shape));
      ASSERT_EQ(FindFault(schedule), std::nullopt) << ranks << " ranks, " << micro_batches << " micro batches";
      ++tables;
    }
  }
  EXPECT_EQ(tables, 1024);
}

TEST_P(AllSizes, VerifiedWithParameterActions) {
  for (int zero = 0; zero <= 3; ++zero) {
    for (int ranks : {1, 2, 3, 4, 8}) {
      for (int micro_batches : {1, 2, 5, 8, 17}) {
        const PipelineShape shape{ranks, micro_batches, GetParam().virtual_stages};
        const Schedule schedule = InsertParameterActions(
            InsertMessages(GetParam().schedule, MakeComputeOrder(GetParam().schedule, shape)), zero);
        ASSERT_EQ(FindFault(schedule), std::nullopt)
            << "zero " << zero << ", " << ranks << " ranks, " << micro_batches << " micro batches";
      }
    }
  }
}

TEST_P(AllSizes, ForwardOnlyIsVerified) {
  for (int zero = 0; zero <= 3; ++zero) {
    for (int ranks : {1, 2, 3, 8}) {
      const StagePlacement placement =
          MakeComputeOrder(GetParam().schedule, {ranks, 1, GetParam().virtual_stages}).placement;
      for (int micro_batches : {1, 2, 5, 8, 17}) {
        const Schedule schedule = MakeForwardSchedule(placement, micro_batches, zero);  // checks itself
        for (const std::vector<Step>& steps : schedule.ranks) {
          for (const Step& step : steps) {
            for (const Action& action : step) EXPECT_FALSE(action.makes_input_gradient()) << action.ToText();
          }
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Schedules, AllSizes,
                         testing::Values(Case{"1f1b", 1}, Case{"interleaved", 2}, Case{"interleaved", 3},
                                         Case{"interleaved", 4}, Case{"zero_bubble", 1}, Case{"dualpipev", 2}));

}  // namespace
}  // namespace trireme
