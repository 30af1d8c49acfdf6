#include "train/programs/python_worker.h"

#include <cstdlib>
#include <filesystem>

#include "core/base/error.h"
#include "core/base/own_files.h"
#include "core/base/process.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kFunctionPrefix = "python:";

// In an installation the package is around the program, in a clone it is python/trireme of a folder above.
std::string WorkerWords() {
  std::error_code error;
  for (fs::path folder = ProgramFolder(); folder.has_relative_path(); folder = folder.parent_path()) {
    for (const fs::path& worker : {folder / "worker.py", folder / "python/trireme/worker.py"}) {
      if (fs::exists(worker, error)) return ShellWord(worker.string());
    }
  }
  return "-m trireme.worker";
}

std::string PythonProgram() {
  const char* named = std::getenv("TRIREME_PYTHON");  // set by the Python front: the one that it runs in
  return named == nullptr || *named == '\0' ? "python3" : named;
}

std::string WorkerCommand(const PythonWorkerOptions& options) {
  return Concat("exec ", ShellWord(PythonProgram()), " ", WorkerWords(), " ", options.kind, " ",
                ShellWord(options.target), " --seconds ", options.seconds);
}

std::string WhoIs(const PythonWorkerOptions& options) {
  const size_t colon = options.target.rfind(':');
  if (colon == std::string::npos || colon == 0 || colon + 1 == options.target.size()) {
    throw InputError(options.key, " has '", kFunctionPrefix, options.target, "'; wanted python:FILE.py:FUNCTION");
  }
  const std::string kind = options.kind == "reward" ? "reward function" : options.kind;
  return Concat("the ", kind, " ", options.target.substr(colon + 1), " of ", options.target.substr(0, colon));
}

}  // namespace

std::string PythonTargetIn(const std::string& name) {
  return name.starts_with(kFunctionPrefix) ? name.substr(kFunctionPrefix.size()) : "";
}

std::string PythonFunctionIn(const std::string& name) {
  return name.starts_with(kFunctionPrefix) ? name.substr(name.rfind(':') + 1) : "";
}

PythonWorker::PythonWorker(const PythonWorkerOptions& options)
    : program_(WorkerCommand(options), WhoIs(options), options.seconds, options.asked, options.limit) {}

Json PythonWorker::Ask(const Json& question, const std::string& wanted) {
  const std::string line = program_.Ask({JsonLine(question)}).at(0);
  const Json answer = TryParseJson(line);
  if (answer.is_object() && answer.contains("error")) {
    throw RuntimeError(who(), " ", answer.at("error").get<std::string>());
  }
  if (answer.is_object() && answer.contains(wanted)) return answer.at(wanted);
  throw RuntimeError(who(), ": its worker answered '", line.substr(0, 80), "'; wanted {\"", wanted, "\": ...}");
}

}  // namespace trireme
