// `trireme check`: the machine as Trireme sees it, then one verified all-reduce over all ranks and one over
// each group of the layout. Gathers facts into one JSON object and prints it, as text by default; checks
// only the results.
#include <H5public.h>
#include <google/protobuf/message.h>
#include <unistd.h>

#include <iomanip>
#include <iostream>
#include <map>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/base/json.h"
#include "core/cli/command.h"
#include "core/comm/communicator_set.h"
#include "core/comm/job.h"
#include "core/device/cann_info.h"
#include "core/device/device.h"
#include "launch/device_facts.h"
#include "launch/layout.h"
#include "launch/npu_operators.h"
#include "launch/verify_all_reduce.h"
#include "ops/operator_report.h"
#include "ops/switches.h"
#include "session/run_plan.h"

namespace trireme {
namespace {

Json CannFacts() {
  const CannInfo info = QueryCann();
  return {{"kind", info.provider},       {"version", info.cann_version},
          {"acl", info.acl_version},     {"soc", info.soc_name},
          {"acl_library", AclLibrary()}, {"hccl_library", LibraryOf(reinterpret_cast<const void*>(&HcclGetRootInfo))}};
}

Json LibraryFacts() {
  unsigned major = 0;
  unsigned minor = 0;
  unsigned release = 0;
  H5get_libversion(&major, &minor, &release);
  Json facts = {{"mpi", MpiLibraryVersion()},
                {"hdf5", Concat(major, ".", minor, ".", release)},
                {"protobuf", google::protobuf::internal::VersionString(GOOGLE_PROTOBUF_VERSION)}};
#ifdef TRIREME_TORCH_VERSION
  facts["libtorch"] = TRIREME_TORCH_VERSION;
#endif
  return facts;
}

std::string HostName() {
  char name[256] = {};
  gethostname(name, sizeof name - 1);
  return name;
}

// Ranks by host, ordered by each host's first rank.
Json HostFacts(Job& job) {
  Json hosts = Json::object();
  const std::vector<std::string> names = job.GatherStrings(HostName());
  for (size_t rank = 0; rank < names.size(); ++rank) hosts[names[rank]].push_back(rank);
  return hosts;
}

std::string Links(const Job& job, const std::string& provider) {
  if (job.world() == 1) return "none: one rank";
  if (provider != "twin") {
    const std::string library = provider == "cuda" ? "NCCL" : "HCCL";
    return library + (job.hosts() == 1 ? " within the host" : " within hosts and between them");
  }
  return job.hosts() == 1 ? "shared memory" : "shared memory within a host, TCP between hosts";
}

Json GroupFacts(const GroupPlan& plan) {
  Json groups = Json::array();
  for (const PlannedGroup& group : plan.groups()) {
    groups.push_back({{"name", group.spec.name},
                      {"axes", group.spec.axes},
                      {"size", group.members.front().size()},
                      {"count", group.members.size()},
                      {"buffer_mb", group.needs_communicator() ? 2 * group.spec.buffer_mb : 0},
                      {"shares", group.shares},
                      {"members", group.members}});
  }
  return groups;
}

// Where tensors are computed; programs without torch compute none.
std::string TensorsOn([[maybe_unused]] const Config& config) {
#ifdef TRIREME_TORCH_VERSION
  return DeviceName(config.device());
#else
  return "none";
#endif
}

Json MachineFacts(const Config& config, Job& job, const Device& device) {
  const Json cann = CannFacts();
  const DeviceMemory memory = device.memory();
  return {{"version", TRIREME_VERSION},
          {"device", TensorsOn(config)},
          {"cann", cann},
          {"devices",
           {{"count", Device::Count()}, {"memory_bytes", memory.total_bytes}, {"free_bytes", memory.free_bytes}}},
          {"libraries", LibraryFacts()},
          {"ranks", job.world()},
          {"hosts", HostFacts(job)},
          {"links", Links(job, cann["kind"])}};
}

// One entry for each group that this rank is in; all ranks process the plan in the same order.
Json VerifyGroups(const GroupPlan& plan, const CommunicatorSet& groups) {
  Json verified = Json::array();
  for (const PlannedGroup& group : plan.groups()) {
    if (!groups.Has(group.spec.name)) continue;
    Communicator& communicator = groups.Get(group.spec.name);
    verified.push_back({{"group", group.spec.name},
                        {"operation", "all_reduce"},
                        {"ranks", communicator.size()},
                        {"dtypes", VerifyAllReduce(communicator)}});
  }
  return verified;
}

void PrintLine(const char* name, const std::string& text) {
  std::cout << std::left << std::setw(11) << name << text << "\n";
}

std::string Gib(const Json& bytes) {
  std::ostringstream text;
  text << std::fixed << std::setprecision(1) << bytes.get<double>() / (1 << 30) << " GiB";
  return text.str();
}

void PrintMachine(const Json& report) {
  const Json& cann = report["cann"];
  const Json& devices = report["devices"];
  const auto text = [](const Json& value) { return value.get<std::string>(); };
  PrintLine("trireme", text(report["version"]));
  PrintLine("device", Concat(text(report["device"]), " for tensors"));
  PrintLine("CANN", Concat(cann["kind"] == "twin" ? "twin of " : "", text(cann["version"]), ", ACL ", text(cann["acl"]),
                           ", ", text(cann["soc"])));
  PrintLine("", text(cann["acl_library"]));
  PrintLine("", text(cann["hccl_library"]));
  PrintLine("devices", Concat(devices["count"].get<int>(), " on this host, ", Gib(devices["memory_bytes"]), " each, ",
                              Gib(devices["free_bytes"]), " free on rank 0's"));
  for (const auto& [name, version] : report["libraries"].items()) PrintLine(name.c_str(), text(version));
  for (const auto& [host, ranks] : report["hosts"].items()) {
    PrintLine("host", Concat(host, ": ", ranks.size(), ranks.size() == 1 ? " rank " : " ranks ", ranks.dump()));
  }
  PrintLine("links", text(report["links"]));
  const std::string device = text(report["device"]);
  if (!report.contains(device)) return;
  const Json& facts = report[device];
  PrintLine(device.c_str(), Concat(text(facts["software"]), ": rank 0 multiplies matrices at ",
                                   facts["matrix_tflops"]["fp32"].get<double>(), " TFLOP/s in fp32 and ",
                                   facts["matrix_tflops"]["bf16"].get<double>(), " in bf16, and copies at ",
                                   facts["copy_gbs"].get<double>(), " GB/s read and written"));
}

void PrintVerified(const Json& verified) {
  for (const Json& entry : verified) {
    std::string dtypes;
    for (const Json& dtype : entry["dtypes"]) dtypes.append(" ").append(dtype.get<std::string>());
    PrintLine("verified", Concat(entry["operation"].get<std::string>(), " over ", entry["group"].get<std::string>(),
                                 ", ", entry["ranks"].get<int>(), " ranks:", dtypes));
  }
}

void CheckNpuOperators(const Arguments& arguments, Job& job) {
  if (job.rank() != 0) return;
#ifdef TRIREME_TORCH_VERSION
  const Json facts = NpuOperatorFacts();
  if (arguments.has("json")) {
    std::cout << JsonLine(facts) << "\n";
  } else {
    PrintNpuOperators(facts);
  }
#else
  throw InputError("this trireme was built without torch and has no device npu; build with TRIREME_TORCH=ON");
#endif
}

// One line per operator, type and shape: which implementation runs, and why those before it do not.
void CheckOperators(const Arguments& arguments, const Config& config, Job& job) {
#ifdef TRIREME_TORCH_VERSION
  TurnOperatorsOff({config.ops().off().begin(), config.ops().off().end()});
  std::string tensors = "cpu";
  if (DeviceName(config.device()) != tensors) {
    Device device = Device::ForLocalRank(job.local_rank());
    tensors = OpenDevice(config.device(), device);
  }
  if (job.rank() != 0) return;
  for (const OperatorReport& line : ReportOperators(tensors)) {
    Json declined = Json::array();
    std::string why;
    for (const auto& [version, reason] : line.declined) {
      declined.push_back({{"impl", version}, {"why", reason}});
      why += Concat(why.empty() ? "" : "; ", "not ", version, ": ", reason);
    }
    if (arguments.has("json")) {
      std::cout << JsonLine({{"op", line.op},
                             {"dtype", line.dtype},
                             {"shape", line.shape},
                             {"impl", line.impl},
                             {"declined", declined}})
                << "\n";
    } else {
      std::cout << std::left << std::setw(18) << line.op << std::setw(6) << line.dtype << std::setw(24) << line.shape
                << std::setw(11) << line.impl << why << "\n";
    }
  }
#else
  throw InputError("this trireme was built without torch and has no operators; build with TRIREME_TORCH=ON");
#endif
}

void Check(const Arguments& arguments, Job& job) {
  const Config config = ConfigOf(arguments, job);
  if (arguments.has("npu-ops")) return CheckNpuOperators(arguments, job);
  if (arguments.has("ops")) return CheckOperators(arguments, config, job);
  const Grids grids = MakeGrids(job.world(), SizesOf(config.parallel()));
  const GroupPlan plan = GroupsOf(config, grids);
  Device device = Device::ForLocalRank(job.local_rank());
  Json report = MachineFacts(config, job, device);
#ifdef TRIREME_TORCH_VERSION
  const std::string tensors = report["device"];
  if (tensors != "cpu") report[tensors] = DeviceFacts(config.device(), device);
#endif
  report["groups"] = GroupFacts(plan);
  report["group_memory_mb"] = plan.DeviceMemoryMb();
  {
    const CommunicatorSet groups(job, device, plan, CommOptionsOf(config));
    report["verified"] = VerifyGroups(plan, groups);
  }
  if (job.rank() != 0) return;
  if (arguments.has("json")) {
    std::cout << JsonLine(report) << "\n";
    return;
  }
  PrintMachine(report);
  std::cout << plan.ToText();
  PrintVerified(report["verified"]);
}

}  // namespace

Command CheckCommand() {
  return {.name = "check",
          .summary = "Shows the machine as Trireme sees it and verifies an all-reduce over each group of ranks.",
          .options = {{.name = "json", .value_name = "", .help = "print one JSON object"},
                      {.name = "ops",
                       .value_name = "",
                       .help = "show instead which implementation of each operator runs, and why faster ones do not"},
                      {.name = "npu-ops",
                       .value_name = "",
                       .help = "show instead which of CANN's operators exist and which ones device npu uses"}},
          .positionals = {{.name = kRunFile,
                           .help = "the run whose layout is checked; by default all keys have their defaults",
                           .required = false}},
          .takes_config = true,
          .run = Check};
}

}  // namespace trireme
