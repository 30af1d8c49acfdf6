// `trireme check` from outside: what it prints and refuses, alone and under mpirun.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "core/base/json.h"
#include "tests/launch/run_shell.h"

namespace trireme {
namespace {

const std::string kTrireme = TRIREME_PROGRAM;

std::string Mpirun(int ranks) { return Concat("timeout 60 ", MPIRUN, " -n ", ranks, " ", kTrireme, " "); }

Json CheckJson(const std::string& program, const std::string& arguments) {
  const ShellResult result = RunShell(program + "check --json " + arguments);
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(std::count(result.out.begin(), result.out.end(), '\n'), 1) << result.out;
  return ParseJson(result.out, "check");
}

TEST(Check, AloneDescribesTheMachine) {
  const Json report = CheckJson(kTrireme + " ", "");
  EXPECT_EQ(report["version"], TRIREME_VERSION);
  EXPECT_EQ(report["ranks"], 1);
  EXPECT_EQ(report["device"], report["cann"]["kind"] == "twin" ? "cpu" : "npu");
  EXPECT_GE(report["devices"]["count"], 1);
  EXPECT_GT(report["devices"]["memory_bytes"], 0);
  EXPECT_NE(report["cann"]["acl_library"].get<std::string>().find("libascendcl"), std::string::npos);
  EXPECT_NE(report["cann"]["hccl_library"].get<std::string>().find("libhccl"), std::string::npos);
  for (const char* library : {"mpi", "hdf5", "protobuf"}) {
    EXPECT_NE(report["libraries"][library].get<std::string>().find('.'), std::string::npos) << library;
  }
  for (const Json& entry : report["verified"]) EXPECT_EQ(entry["ranks"], 1);
}

TEST(Check, UnderMpirunVerifiesEveryGroup) {
  const Json report = CheckJson(Mpirun(4), "--set parallel.tensor=2 --set parallel.pipeline=2");
  EXPECT_EQ(report["ranks"], 4);
  ASSERT_EQ(report["hosts"].size(), 1u);
  EXPECT_EQ(report["hosts"].begin().value(), (Json{0, 1, 2, 3}));
  EXPECT_EQ(report["group_memory_mb"].size(), 4u);
  std::set<std::string> planned;
  for (const Json& group : report["groups"]) planned.insert(group["name"].get<std::string>());
  std::set<std::string> verified;
  for (const Json& entry : report["verified"]) {
    const std::string name = entry["group"];
    verified.insert(name);
    const std::map<std::string, int> sizes = {{"world", 4}, {"tp", 2}, {"pp", 2}, {"embedding", 2}};
    EXPECT_EQ(entry["ranks"], sizes.contains(name) ? sizes.at(name) : 1) << name;
    EXPECT_GE(entry["dtypes"].size(), 4u) << name;
  }
  EXPECT_EQ(planned, verified);  // rank 0 is in a group of each kind
}

TEST(Check, TextContainsTheGroupsAndTheResult) {
  const ShellResult result = RunShell(Mpirun(2) + "check --set parallel.tensor=2");
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_NE(result.out.find("verified   all_reduce over world, 2 ranks: fp32"), std::string::npos) << result.out;
  EXPECT_NE(result.out.find("verified   all_reduce over tp, 2 ranks: fp32"), std::string::npos) << result.out;
  EXPECT_NE(result.out.find("of device memory per rank"), std::string::npos) << result.out;
  EXPECT_EQ(result.err, "");
}

TEST(Check, ALayoutThatDoesNotDivideTheWorldExitsWithTwoAndOneLine) {
  const ShellResult result = RunShell(Mpirun(2) + "check --set parallel.tensor=3");
  EXPECT_EQ(result.status, 2);
  EXPECT_EQ(result.out, "");
  EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
  EXPECT_NE(result.err.find("parallel.tensor"), std::string::npos) << result.err;
}

TEST(Check, MoreRanksThanDevicesExitsWithTwoAndSaysWhatToSet) {
  const ShellResult result = RunShell("TWIN_DEVICES=1 " + Mpirun(2) + "check");
  EXPECT_EQ(result.status, 2);
  EXPECT_NE(result.err.find("TWIN_DEVICES=2"), std::string::npos) << result.err;
}

TEST(Check, GroupsThatDoNotFitIntoTheDeviceAreAnErrorWithTheSum) {
  const ShellResult result =
      RunShell("TWIN_DEVICE_MEMORY_GB=1 " + Mpirun(2) + "check --set parallel.tensor=2 --set comm.buffer_mb=600");
  EXPECT_EQ(result.status, 1) << result.out;
  EXPECT_NE(result.err.find("group tp"), std::string::npos) << result.err;
  EXPECT_NE(result.err.find("600 MB"), std::string::npos) << result.err;
}

}  // namespace
}  // namespace trireme
