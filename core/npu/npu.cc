#include "core/npu/npu.h"

#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>

#include "core/base/error.h"
#include "core/device/cann_info.h"
#include "core/npu/embedded_python.h"

namespace trireme {
namespace {

// What torch_npu links or opens by name, besides ACL and HCCL, which this program has.
constexpr const char* kLibraries[] = {"libacl_op_compiler.so", "libge_runner.so", "libgraph.so",
                                      "libacl_tdt_channel.so", "libopapi.so"};

// By their full paths, beside the ACL that is loaded: later lookups by name find these, whatever the
// search path.
void OpenCannLibraries() {
  const std::filesystem::path folder = std::filesystem::path(AclLibrary()).parent_path();
  for (const char* name : kLibraries) {
    const std::filesystem::path beside = folder / name;
    const std::string path = std::filesystem::exists(beside) ? beside.string() : name;
    if (dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL) != nullptr) continue;
    throw InputError(
        "device npu: CANN is only partly installed: ", name, " is neither in ", folder.string(),
        " nor on the library path (", dlerror(),
        "); install the CANN toolkit and kernels and source set_env.sh, or build with TRIREME_CANN=twin");
  }
}

// Which torch_npu an import would find, without importing it: one built for another torch may crash.
std::string FindVersion(const EmbeddedPython& python) try {
  return python.Run("import importlib.metadata\nresult = importlib.metadata.version('torch_npu')");
} catch (const Error& error) {
  throw InputError("device npu: Python finds no torch_npu (", error.what(), "); wanted ",
                   TRIREME_TORCH_NPU_VERSION, ": run scripts/setup --npu, or add its folder to PYTHONPATH");
}

void CheckVersion(const std::string& found) {
  constexpr const char* kWanted = TRIREME_TORCH_NPU_VERSION;
  const std::string plain = found.substr(0, found.find('+'));
  if (plain == kWanted) return;
  throw InputError("device npu: Python finds torch_npu ", found, "; this program was built for ", kWanted,
                   "; install torch_npu==", kWanted,
                   ", or put the folder of that version first on PYTHONPATH");
}

void Import(const EmbeddedPython& python) try {
  python.Run("import torch\nimport torch_npu\ntorch.npu.set_compile_mode(jit_compile=False)");
} catch (const Error& error) {
  throw InputError("device npu: torch_npu cannot be imported (", error.what(),
                   "); its Python packages come with scripts/setup --npu");
}

NpuBridge& OpenBridge() {
  void* library = dlopen(TRIREME_NPU_BRIDGE, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) throw RuntimeError("device npu: ", dlerror(), "; run scripts/build");
  void* function = dlsym(library, kNpuBridgeFunction);
  TRIREME_CHECK(function != nullptr) << TRIREME_NPU_BRIDGE << " has no " << kNpuBridgeFunction;
  return *reinterpret_cast<NpuBridgeFunction*>(function)();
}

std::string BringIn() {
  // Otherwise Python's torch looks for backends itself and imports this one during its own import.
  setenv("TORCH_DEVICE_BACKEND_AUTOLOAD", "0", 1);
  OpenCannLibraries();
  const EmbeddedPython python;
  // Last on the path: the user's own torch_npu takes precedence.
  python.Run("import sys\nsys.path.append(" + EmbeddedPython::Quote(TRIREME_TORCH_NPU_DIR) + ")");
  const std::string version = FindVersion(python);
  CheckVersion(version);
  Import(python);
  return version;
}

}  // namespace

Npu::Npu(int device, std::string version, NpuBridge& bridge)
    : device_(device), version_(std::move(version)), bridge_(bridge) {
  bridge_.SetDevice(device);
}

Npu& Npu::Open(int device) {
  // Never destroyed: autograd's threads may use the device during static destruction.
  static Npu* const npu = [device] {
    std::string version = BringIn();
    return new Npu(device, std::move(version), OpenBridge());
  }();
  TRIREME_CHECK(npu->device() == device) << "npu " << device << " was requested after npu " << npu->device();
  return *npu;
}

}  // namespace trireme
