#include "core/npu/operators.h"

#include <dlfcn.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "core/base/error.h"
#include "core/device/cann_info.h"

namespace trireme {
namespace {

// What training calls, counted on the twin; a test fails if a run calls one that is not listed.
constexpr const char* kUsed[] = {
#include "core/npu/used_operators.inc"
};

void* OpenOperators() {
  const std::filesystem::path beside = std::filesystem::path(AclLibrary()).parent_path() / "libopapi.so";
  void* library = dlopen(std::filesystem::exists(beside) ? beside.c_str() : "libopapi.so", RTLD_LAZY);
  if (library == nullptr) {
    throw InputError(
        "libopapi.so, which holds CANN's operators, cannot be loaded (", dlerror(),
        CannProvider() == "twin" ? "); run scripts/build" : "); install CANN's kernels package and source set_env.sh");
  }
  return library;
}

// The twin lists its operators and counts calls; Huawei's library does neither.
void AddTwinOperators(void* library, std::map<std::string, NpuOperator>& operators) {
  const auto name = reinterpret_cast<const char* (*)(size_t)>(dlsym(library, "twinOperatorName"));
  const auto calls = reinterpret_cast<uint64_t (*)(size_t)>(dlsym(library, "twinOperatorCalls"));
  const auto largest = reinterpret_cast<uint64_t (*)(size_t)>(dlsym(library, "twinOperatorLargestBytes"));
  if (name == nullptr || calls == nullptr || largest == nullptr) return;
  for (size_t i = 0; name(i) != nullptr; ++i) {
    NpuOperator& entry = operators[name(i)];
    entry.there = true;
    entry.calls = calls(i);
    entry.largest_bytes = largest(i);
  }
}

}  // namespace

std::vector<NpuOperator> ListNpuOperators() {
  void* library = OpenOperators();
  std::map<std::string, NpuOperator> operators;
  AddTwinOperators(library, operators);
  for (const char* name : kUsed) {
    operators[name].used = true;
    operators[name].there = dlsym(library, name) != nullptr;
  }
  std::vector<NpuOperator> list;
  for (auto& [name, entry] : operators) {
    entry.name = name;
    list.push_back(entry);
  }
  return list;
}

}  // namespace trireme
