// `trireme bench comm`: times the collectives through a communicator over all ranks, one JSON line per case,
// and with --against mpi Open MPI's own collectives in the same run. The operations are in bench_comm_case.
#include <algorithm>
#include <cctype>
#include <chrono>
#include <cmath>
#include <iostream>
#include <string>
#include <thread>
#include <vector>

#include "core/base/clock.h"
#include "core/base/error.h"
#include "core/base/json.h"
#include "core/base/log.h"
#include "core/base/rounding.h"
#include "core/base/text.h"
#include "core/cli/command.h"
#include "core/comm/communicator_set.h"
#include "core/comm/job.h"
#include "core/device/cann_info.h"
#include "launch/bench_comm_case.h"

namespace trireme {
namespace {

constexpr double kBlockSeconds = 0.01;  // consecutive calls before switching to the other side
constexpr double kSideSeconds = 0.5;    // all blocks of one side of a case
constexpr int kFewestBlocks = 5;
constexpr int kMostBlocks = 25;
constexpr size_t kGrowth = 4;
constexpr size_t kLargest = size_t{1} << 30;  // MPI counts in int

struct BenchOptions {
  std::vector<std::string> ops;
  size_t min_bytes;
  size_t max_bytes;
  DType dtype;
  BenchMemory memory;
  int64_t iterations;  // 0: as many as fit into the time budget
  bool against_mpi;
};

size_t ParseBytes(const Arguments& arguments, const std::string& name, const std::string& fallback) {
  const std::string text = arguments.value(name, fallback);
  size_t digits = 0;
  while (digits < text.size() && std::isdigit(static_cast<unsigned char>(text[digits])) != 0) ++digits;
  const std::string suffixes = "KMG";
  const size_t suffix = digits < text.size() ? suffixes.find(text[digits]) : std::string::npos;
  const bool well_formed = digits > 0 && digits < 10 &&
                           (digits == text.size() || (suffix != std::string::npos && digits + 1 == text.size()));
  const size_t bytes =
      well_formed ? std::stoull(text.substr(0, digits)) << (suffix == std::string::npos ? 0 : 10 * (suffix + 1)) : 0;
  if (bytes == 0 || bytes > kLargest) {
    throw InputError("--", name, " ", text, ": wanted a size from 1 to 1G, such as 4096, 64K or 256M");
  }
  return bytes;
}

std::vector<std::string> ParseOps(const Arguments& arguments) {
  const std::vector<std::string>& known = BenchOperations();
  if (!arguments.has("op")) return known;
  for (const std::string& op : arguments.values("op")) {
    if (std::find(known.begin(), known.end(), op) != known.end()) continue;
    throw InputError("--op ", op, ": wanted one of ", Join(known));
  }
  return arguments.values("op");
}

BenchOptions ParseOptions(const Arguments& arguments, const Job& job) {
  const std::string memory = arguments.value("memory", "device");
  if (memory != "device" && memory != "host") throw InputError("--memory ", memory, ": wanted device or host");
  const std::string against = arguments.value("against", "");
  if (!against.empty() && against != "mpi") throw InputError("--against ", against, ": wanted mpi");
  BenchOptions options = {.ops = ParseOps(arguments),
                          .min_bytes = ParseBytes(arguments, "min-bytes", "1K"),
                          .max_bytes = ParseBytes(arguments, "max-bytes", "256M"),
                          .dtype = DTypeFromName(arguments.value("dtype", "fp32")),
                          .memory = memory == "host" ? BenchMemory::kHost : BenchMemory::kDevice,
                          .iterations = arguments.integer("iterations", 0),
                          .against_mpi = !against.empty()};
  if (options.min_bytes > options.max_bytes) {
    throw InputError("--min-bytes ", options.min_bytes, " is more than --max-bytes ", options.max_bytes);
  }
  if (options.against_mpi && !job.under_mpi()) {
    throw InputError("--against mpi needs MPI: start it as mpirun -n 2 trireme bench comm …");
  }
  for (const std::string& op : options.ops) {
    if (options.against_mpi) CheckMpiCanDo(op, options.dtype);
  }
  return options;
}

// The slowest rank's seconds per call over `calls` consecutive calls.
template <typename Run>
double TimeBlock(Job& job, int calls, Run run) {
  // Let the other side's threads go to sleep first: idle ones spin for a short while.
  std::this_thread::sleep_for(std::chrono::milliseconds(2));
  job.Barrier();
  const Clock::time_point start = Clock::now();
  for (int i = 0; i < calls; ++i) run();
  const double mine = SecondsSince(start) / calls;
  return job.Max(mine);
}

// The best block: on a shared machine the one that was disturbed least.
double Best(const std::vector<double>& block_times) {
  return *std::min_element(block_times.begin(), block_times.end());
}

// Three decimal places: more is noise.
double Rounded(double value) { return std::round(value * 1e3) / 1e3; }
double Microseconds(double seconds) { return Rounded(seconds * 1e6); }

// All ranks compute the same numbers, since they start from the slowest rank's time.
struct Effort {
  int calls;  // per block
  int blocks;
};

Effort EffortFor(double call_seconds, int64_t iterations) {
  const int calls = std::clamp(static_cast<int>(kBlockSeconds / call_seconds), 1, 200);
  if (iterations > 0) {
    const int in_block = static_cast<int>(std::min<int64_t>(calls, iterations));
    return {in_block, static_cast<int>(DivideUp(iterations, in_block))};
  }
  const int blocks = static_cast<int>(kSideSeconds / (call_seconds * calls));
  return {calls, std::clamp(blocks, kFewestBlocks, kMostBlocks)};
}

Json TimeCase(const BenchSpec& spec, int64_t iterations, Communicator& world, Job& job) {
  CommBenchCase bench(spec, world);
  const auto ours = [&] { bench.RunOurs(); };
  const auto mpi = [&] { bench.RunMpi(); };
  ours();
  bench.VerifyOurs();
  if (spec.against_mpi) {
    mpi();
    bench.VerifyMpi();
  }
  double call_seconds = TimeBlock(job, 1, ours);
  if (spec.against_mpi) call_seconds = std::max(call_seconds, TimeBlock(job, 1, mpi));
  const Effort effort = EffortFor(call_seconds, iterations);
  std::vector<double> our_times;
  std::vector<double> mpi_times;
  for (int block = 0; block < effort.blocks; ++block) {
    our_times.push_back(TimeBlock(job, effort.calls, ours));
    if (spec.against_mpi) mpi_times.push_back(TimeBlock(job, effort.calls, mpi));
  }
  const double us = Microseconds(Best(our_times));
  Json line = {{"op", spec.op},
               {"ranks", world.size()},
               {"bytes", bench.bytes()},
               {"us", us},
               {"algbw_gbs", Rounded(bench.bytes() / us / 1e3)}};
  if (spec.against_mpi) {
    const double peer_us = Microseconds(Best(mpi_times));
    line["peer_us"] = peer_us;
    line["ratio"] = Rounded(peer_us / us);
  }
  line["dtype"] = Name(spec.dtype);
  line["iterations"] = effort.calls * effort.blocks;
  return line;
}

void BenchComm(const Arguments& arguments, Job& job) {
  const BenchOptions options = ParseOptions(arguments, job);
  const Device device = Device::ForLocalRank(job.local_rank());
  if (options.memory == BenchMemory::kHost && !QueryCann().twin) {
    throw InputError("--memory host: a real device communicates from its own memory only; use --memory device");
  }
  const Grids grids = MakeGrids(job.world(), {});
  const GroupPlan plan(grids, {{.name = "world", .axes = {"tp", "cp", "dp", "pp"}, .buffer_mb = 200}});
  const CommunicatorSet groups(job, device, plan, {});
  Communicator& world = groups.Get("world");
  for (const std::string& op : options.ops) {
    if (op == "send_recv" && world.size() == 1) {
      TRIREME_LOG(WARNING) << "send_recv is skipped: a single rank has no peer";
      continue;
    }
    for (size_t bytes = options.min_bytes; bytes <= options.max_bytes; bytes *= kGrowth) {
      const BenchSpec spec = {op, options.dtype, bytes, options.memory, options.against_mpi};
      const Json line = TimeCase(spec, options.iterations, world, job);
      if (job.rank() == 0) std::cout << JsonLine(line) << std::endl;
    }
  }
}

constexpr const char* kBenchCommSummary =
    "Times the collectives over all ranks, one JSON line per case. Sizes grow by 4. `bytes` is the\n"
    "whole buffer of a rank: for all_reduce and all_to_all either side, for all_gather the gathered\n"
    "result, for reduce_scatter the source, for send_recv (each rank sends to the next) the message.\n"
    "`us` is one call including the wait for it, on the slowest rank, in the best of several blocks of\n"
    "calls; algbw_gbs is bytes / us.";

}  // namespace

Command BenchCommCommand() {
  return {.name = "bench comm",
          .summary = kBenchCommSummary,
          .options = {{.name = "op",
                       .value_name = "OP",
                       .help = "all_reduce, all_gather, reduce_scatter, all_to_all or send_recv; by default all",
                       .repeatable = true},
                      {.name = "min-bytes", .value_name = "SIZE", .help = "smallest size; by default 1K"},
                      {.name = "max-bytes", .value_name = "SIZE", .help = "largest size; by default 256M"},
                      {.name = "dtype", .value_name = "TYPE", .help = "element type; by default fp32"},
                      {.name = "iterations",
                       .value_name = "N",
                       .help = "timed calls per case; by default as many as fit into about a second"},
                      {.name = "memory",
                       .value_name = "KIND",
                       .help = "where Trireme's buffers are: device, or (on the twin) host; by default device"},
                      {.name = "against",
                       .value_name = "PEER",
                       .help = "mpi: also time MPI's collective on the same data, alternating; adds peer_us and "
                               "ratio (peer_us / us)"}},
          .run = BenchComm};
}

}  // namespace trireme
