#include "checkpoint/carried_files.h"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "checkpoint/value_head_names.h"
#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/json.h"
#include "core/io/atomic_file.h"
#include "core/io/file_system.h"

namespace trireme {
namespace {

constexpr char kConfig[] = "config.json";
constexpr std::array<std::string_view, 6> kEndings = {".json", ".txt", ".model", ".jinja", ".tiktoken", ".py"};

bool IsCarried(const std::filesystem::path& file) {
  const std::string name = file.filename().string();
  if (name.ends_with(".index.json") || name == "latest_checkpointed_iteration.txt") return false;  // of weights
  return std::any_of(kEndings.begin(), kEndings.end(), [&](auto ending) { return name.ends_with(ending); });
}

const char* TorchName(DType dtype) {
  switch (dtype) {
    case DType::kFp32:
      return "float32";
    case DType::kBf16:
      return "bfloat16";
    case DType::kFp16:
      return "float16";
    default:
      return nullptr;
  }
}

// The new text, or the old one if it already has that dtype. Without the key the dtype is float32.
std::string WithType(const std::string& text, const std::string& where, DType dtype) {
  const char* name = TorchName(dtype);
  Json config = ParseJson(text, where);
  if (name == nullptr || !config.is_object()) return text;
  const char* key = config.contains("torch_dtype") && !config.contains("dtype") ? "torch_dtype" : "dtype";
  const bool said = config.contains(key) && config[key].is_string();
  if ((said ? config[key].get<std::string>() : "float32") == name) return text;
  config[key] = name;
  return config.dump(2) + "\n";
}

// The folders of sentence-transformers' modules, as modules.json names them.
std::vector<std::filesystem::path> ModuleFolders(const std::filesystem::path& from) {
  const std::filesystem::path list = from / "modules.json";
  if (!PathExists(list)) return {};
  std::vector<std::filesystem::path> folders;
  for (const Json& module : ReadJsonFile(list.string())) {
    const Json path = module.is_object() ? module.value("path", Json()) : Json();
    if (!path.is_string() || path.get<std::string>().empty()) continue;
    const std::filesystem::path folder = path.get<std::string>();
    if (folder.is_relative() && folder == folder.filename() && IsDirectory(from / folder)) folders.push_back(folder);
  }
  return folders;
}

void CarryFolder(const std::filesystem::path& from, const std::filesystem::path& to) {
  std::filesystem::create_directories(to);
  for (const auto& entry : std::filesystem::directory_iterator(from)) {
    if (!entry.is_regular_file() || !IsCarried(entry.path())) continue;
    WriteAtomicFile(to / entry.path().filename(), ReadTextFile(entry.path().string()));
  }
}

}  // namespace

void CarryFiles(const std::filesystem::path& from, const std::filesystem::path& to, const CarryOptions& options) {
  std::error_code error;
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(from, error)) {
    const bool head = options.value_head && entry.path().filename() == kValueHeadFile;
    if (entry.is_regular_file(error) && (head || IsCarried(entry.path()))) files.push_back(entry.path());
  }
  if (error) throw InputError(from.string(), ": cannot be read: ", error.message());
  std::sort(files.begin(), files.end());
  for (const std::filesystem::path& file : files) {
    const bool is_config = file.filename() == kConfig;
    std::string text = is_config && options.config ? *options.config : ReadTextFile(file.string());
    if (options.dtype && is_config) text = WithType(text, file.string(), *options.dtype);
    AtomicFile copy(to / file.filename());
    copy.Write(text.data(), text.size());
    copy.Commit();
  }
  for (const std::filesystem::path& folder : ModuleFolders(from)) CarryFolder(from / folder, to / folder);
}

}  // namespace trireme
