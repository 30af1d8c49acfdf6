// `trireme bench comm` from outside: its output and its errors. Speed is not asserted.
#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "core/base/json.h"
#include "tests/launch/run_shell.h"

namespace trireme {
namespace {

const std::string kTrireme = TRIREME_PROGRAM;

std::string Mpirun(int ranks) {
  return Concat("timeout 120 ", MPIRUN, " -n ", ranks, " ", kTrireme, " bench comm --iterations 2 ");
}

std::vector<Json> Lines(const std::string& command) {
  const ShellResult result = RunShell(command);
  EXPECT_EQ(result.status, 0) << result.err;
  std::vector<Json> lines;
  std::istringstream text(result.out);
  for (std::string line; std::getline(text, line);) lines.push_back(ParseJson(line, "line"));
  return lines;
}

TEST(BenchComm, EveryOperationAgainstMpi) {
  const std::vector<Json> lines = Lines(Mpirun(2) + "--min-bytes 1K --max-bytes 64K --against mpi");
  std::set<std::string> ops;
  for (const Json& line : lines) {
    ops.insert(line["op"].get<std::string>());
    EXPECT_EQ(line["ranks"], 2);
    EXPECT_GT(line["us"], 0);
    EXPECT_GT(line["peer_us"], 0);
    const double ratio = line["peer_us"].get<double>() / line["us"].get<double>();
    EXPECT_NEAR(line["ratio"].get<double>(), ratio, 1e-3 + ratio * 1e-3);
    const double gbs = line["bytes"].get<double>() / line["us"].get<double>() / 1e3;
    EXPECT_NEAR(line["algbw_gbs"].get<double>(), gbs, 1e-3 + gbs * 1e-3);
  }
  EXPECT_EQ(ops, (std::set<std::string>{"all_reduce", "all_gather", "reduce_scatter", "all_to_all", "send_recv"}));
  EXPECT_EQ(lines.size(), 5u * 4u);
}

TEST(BenchComm, BytesAreWholeElementsOnEveryRank) {
  for (const Json& line : Lines(Mpirun(3) + "--min-bytes 1K --max-bytes 4K --op all_gather --op all_to_all")) {
    EXPECT_EQ(line["bytes"].get<size_t>() % (3 * sizeof(float)), 0u);
    EXPECT_FALSE(line.contains("peer_us"));
  }
}

TEST(BenchComm, HostMemoryAndOtherTypesWork) {
  for (const std::string dtype : {"bf16", "int32"}) {
    const auto lines = Lines(Mpirun(2) + "--min-bytes 4K --max-bytes 4K --memory host --dtype " + dtype);
    EXPECT_EQ(lines.size(), 5u);
    for (const Json& line : lines) EXPECT_EQ(line["dtype"], dtype);
  }
}

TEST(BenchComm, AloneItCopiesAndSkipsSendRecv) {
  const auto lines = Lines(kTrireme + " bench comm --iterations 1 --min-bytes 1M --max-bytes 1M");
  EXPECT_EQ(lines.size(), 4u);
  for (const Json& line : lines) EXPECT_EQ(line["ranks"], 1);
}

TEST(BenchComm, WrongArgumentsExitWithTwoAndAreNamed) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"--op all_reduze", "--op all_reduze: wanted one of all_reduce"},
      {"--min-bytes 0", "--min-bytes 0: wanted a size"},
      {"--max-bytes 12Q", "--max-bytes 12Q: wanted a size"},
      {"--min-bytes 4K --max-bytes 1K", "--min-bytes 4096 is more than --max-bytes 1024"},
      {"--memory disk", "--memory disk: wanted device or host"},
      {"--against nccl", "--against nccl: wanted mpi"},
      {"--dtype fp99", "fp99"},
      {"--against mpi", "needs MPI"},
  };
  for (const auto& [arguments, wanted] : cases) {
    const ShellResult result = RunShell(kTrireme + " bench comm " + arguments);
    EXPECT_EQ(result.status, 2) << arguments;
    EXPECT_NE(result.err.find(wanted), std::string::npos) << arguments << ": " << result.err;
    EXPECT_EQ(result.out, "") << arguments;
  }
  const ShellResult bf16 = RunShell(Mpirun(2) + "--against mpi --dtype bf16");
  EXPECT_EQ(bf16.status, 2);
  EXPECT_NE(bf16.err.find("MPI cannot reduce bf16"), std::string::npos) << bf16.err;
}

TEST(BenchComm, OutOfDeviceMemoryExitsWithOneAndTheFigures) {
  const ShellResult result =
      RunShell("TWIN_DEVICE_MEMORY_GB=1 " + Mpirun(2) + "--op all_reduce --min-bytes 1G --max-bytes 1G");
  EXPECT_EQ(result.status, 1);
  EXPECT_NE(result.err.find("207001"), std::string::npos) << result.err;
  EXPECT_NE(result.err.find("of 1024 MiB"), std::string::npos) << result.err;
}

}  // namespace
}  // namespace trireme
