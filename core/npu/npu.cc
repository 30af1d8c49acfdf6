#include "core/npu/npu.h"

#include <cxxabi.h>
#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <sstream>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/own_files.h"
#include "core/device/cann_info.h"
#include "core/npu/embedded_python.h"

namespace trireme {
namespace {

// What torch_npu links or opens by name, besides ACL and HCCL, which this program has.
constexpr const char* kLibraries[] = {"libacl_op_compiler.so", "libge_runner.so", "libgraph.so",
                                      "libacl_tdt_channel.so", "libopapi.so"};

constexpr const char* kBridge = "libtrireme_npu_bridge.so";
constexpr const char* kTorchNpuFolder = "torch_npu_folder";

// Of the twin, whose libraries a build makes, or of Huawei's CANN.
std::string HowToGetLibraries() {
  return CannProvider() == "twin" ? "build all of the twin's libraries: run scripts/build"
                                  : "install the CANN toolkit and kernels and source set_env.sh, or build with "
                                    "TRIREME_CANN=twin";
}

// By their full paths, beside the ACL that is loaded: later lookups by name find these, whatever the
// search path.
void OpenCannLibraries() {
  const std::filesystem::path folder = std::filesystem::path(AclLibrary()).parent_path();
  for (const char* name : kLibraries) {
    const std::filesystem::path beside = folder / name;
    const std::string path = std::filesystem::exists(beside) ? beside.string() : name;
    if (dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL) != nullptr) continue;
    const std::string why = dlerror();  // before another call clears it
    throw InputError("device npu: CANN is only partly installed: ", name, " is neither in ", folder.string(),
                     " nor on the library path (", why, "); ", HowToGetLibraries());
  }
}

// Which torch_npu an import would find, without importing it: one built for another torch may crash.
std::string FindVersion(const EmbeddedPython& python) try {
  return python.Run("import importlib.metadata\nresult = importlib.metadata.version('torch_npu')");
} catch (const Error& error) {
  throw InputError("device npu: Python finds no torch_npu (", error.what(), "); wanted ", TRIREME_TORCH_NPU_VERSION,
                   ": run scripts/setup, in an installed Trireme pip install torch_npu==", TRIREME_TORCH_NPU_VERSION,
                   ", or add its folder to PYTHONPATH");
}

// A post release is built for the same torch, and whether it has what is needed shows when it is loaded; any
// other release is built for another torch.
void CheckRelease(const std::string& found) {
  const std::string wanted = TRIREME_TORCH_NPU_VERSION;
  const std::string plain = found.substr(0, found.find('+'));
  if (plain == wanted || plain.starts_with(wanted + ".post")) return;
  throw InputError("device npu: Python finds torch_npu ", found, ", which is built for another torch; wanted ", wanted,
                   " or a ", wanted, ".postN; install torch_npu==", wanted,
                   ", or put the folder of such a version first on PYTHONPATH");
}

// The name in "…: undefined symbol: NAME, version …"; empty if the text has none.
std::string UndefinedSymbol(const std::string& text) {
  constexpr std::string_view kBefore = "undefined symbol: ";
  const size_t at = text.find(kBefore);
  if (at == std::string::npos) return "";
  const std::string name = text.substr(at + kBefore.size());
  return name.substr(0, name.find_first_of(" ,)\n"));
}

std::string Demangled(const std::string& symbol) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> name(abi::__cxa_demangle(symbol.c_str(), nullptr, nullptr, &status),
                                                         std::free);
  return status == 0 ? name.get() : symbol;
}

void Import(const EmbeddedPython& python, const std::string& version) try {
  python.Run("import torch\nimport torch_npu\ntorch.npu.set_compile_mode(jit_compile=False)");
} catch (const Error& error) {
  if (const std::string symbol = UndefinedSymbol(error.what()); !symbol.empty()) {
    throw InputError("device npu: torch_npu ", version, " needs ", Demangled(symbol), ", which neither CANN, in ",
                     std::filesystem::path(AclLibrary()).parent_path().string(),
                     ", nor torch has; install the CANN release that this torch_npu was made for, or "
                     "torch_npu==",
                     TRIREME_TORCH_NPU_VERSION);
  }
  throw InputError("device npu: torch_npu ", version, " cannot be imported (", error.what(),
                   "); its Python packages come with scripts/setup");
}

// Resolves all that the bridge uses of torch_npu now: this is the check that the installed version can work.
NpuBridge& OpenBridge(const std::string& version) {
  void* library = dlopen(OwnFile(kBridge).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const std::string problem = dlerror();
    const std::string symbol = UndefinedSymbol(problem);
    if (symbol.empty()) throw RuntimeError("device npu: ", problem, "; run scripts/build, or install Trireme again");
    throw InputError("device npu: torch_npu ", version, " does not have ", Demangled(symbol),
                     ", which this program calls; install torch_npu==", TRIREME_TORCH_NPU_VERSION,
                     ", or put the folder of that version first on PYTHONPATH");
  }
  void* function = dlsym(library, kNpuBridgeFunction);
  TRIREME_CHECK(function != nullptr) << kBridge << " has no " << kNpuBridgeFunction;
  return *reinterpret_cast<NpuBridgeFunction*>(function)();
}

// What Ascend's guides recommend for training, where the user has set nothing: operators are prepared on a second
// thread (2: their workspaces, too), and segments of memory grow in place instead of leaving gaps. torch_npu reads both
// as it is loaded.
void UseRecommendedSettings() {
  setenv("TASK_QUEUE_ENABLE", "2", 0);
  setenv("PYTORCH_NPU_ALLOC_CONF", "expandable_segments:True", 0);
}

const EmbeddedPython& BringIn() {
  UseRecommendedSettings();
  // Otherwise Python's torch looks for backends itself and imports this one during its own import.
  setenv("TORCH_DEVICE_BACKEND_AUTOLOAD", "0", 1);
  // Otherwise the import starts worker processes for torch's compiler, which nothing here uses: half of a start's time.
  setenv("TORCHINDUCTOR_COMPILE_THREADS", "1", 0);
  OpenCannLibraries();
  const auto* python = new EmbeddedPython;  // lives as long as the process
  // A build names the folder of the torch_npu that it was made with. Last on the path: the user's own takes precedence.
  if (const std::filesystem::path built_with = OwnFile(kTorchNpuFolder); !built_with.empty()) {
    python->Run("import sys\nsys.path.append(" + EmbeddedPython::Quote(ReadTextFile(built_with)) + ")");
  }
  return *python;
}

Npu* OpenNpu(int device) {
  const EmbeddedPython& python = BringIn();
  const std::string version = FindVersion(python);
  CheckRelease(version);
  Import(python, version);
  return new Npu(device, version, python, OpenBridge(version));
}

}  // namespace

Npu::Npu(int device, std::string version, const EmbeddedPython& python, NpuBridge& bridge)
    : device_(device), version_(std::move(version)), python_(python), bridge_(bridge) {
  bridge_.SetDevice(device);
}

Npu& Npu::Open(int device) {
  // Never destroyed: autograd's threads may use the device during static destruction.
  static Npu* const npu = OpenNpu(device);
  TRIREME_CHECK(npu->device() == device) << "npu " << device << " was requested after npu " << npu->device();
  return *npu;
}

// By their names in Python: in C++ these are virtual functions and structures whose layout is each version's
// own.
NpuMemory Npu::Memory() const {
  std::istringstream numbers(
      python_.Run(Concat("import torch\nfound = torch.npu.memory_stats(", device_,
                         ")\nresult = ' '.join(str(found.get(name + '_bytes.all.' + kind, 0))"
                         " for kind in ('current', 'peak') for name in ('allocated', 'reserved', 'requested'))")));
  NpuMemory memory;
  numbers >> memory.allocated >> memory.reserved >> memory.requested >> memory.peak_allocated >> memory.peak_reserved >>
      memory.peak_requested;
  TRIREME_CHECK(!numbers.fail()) << "torch.npu.memory_stats has no allocated_bytes.all.current";
  return memory;
}

void Npu::ResetPeak() { python_.Run(Concat("import torch\ntorch.npu.reset_peak_memory_stats(", device_, ")")); }

}  // namespace trireme
