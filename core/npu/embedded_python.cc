#include "core/npu/embedded_python.h"

#include <dlfcn.h>
#include <link.h>

#include <cstdlib>
#include <filesystem>
#include <regex>

#include "core/base/error.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

// Python's C API, as far as it is used here.
template <typename Function>
Function* Symbol(void* library, const char* name) {
  void* symbol = dlsym(library, name);
  if (symbol == nullptr) throw InputError("device npu: libpython has no ", name, "; wanted Python 3.9 or newer");
  return reinterpret_cast<Function*>(symbol);
}

// ".../lib/python3.11/site-packages", which holds the torch that this program uses.
fs::path TorchSite() {
  void* torch = dlopen("libtorch_cpu.so", RTLD_NOLOAD | RTLD_LAZY);
  link_map* map = nullptr;
  if (torch == nullptr || dlinfo(torch, RTLD_DI_LINKMAP, &map) != 0) {
    throw InputError("device npu: this program has not loaded libtorch_cpu.so");
  }
  return fs::path(map->l_name).parent_path().parent_path().parent_path();  // site-packages / torch / lib
}

// "python3.11"
std::string PythonNameOf(const fs::path& site) {
  std::smatch found;
  const std::string text = site.string();
  if (std::regex_search(text, found, std::regex("/(python3\\.[0-9]+)/"))) return found[1];
  throw InputError("device npu: the torch that this program uses, in ", text,
                   ", is not part of a Python environment; wanted .../lib/python3.N/site-packages/torch: build with "
                   "TRIREME_TORCH_DIR set to such a folder");
}

void* OpenLibrary(const std::string& python, const fs::path& site) {
  const std::string name = "lib" + python + ".so.1.0";
  // An environment with its own Python (conda) contains the library, others use the system's.
  const fs::path beside = site.parent_path().parent_path() / name;
  // Only Python itself knows the place for certain: the installed program's front names it.
  const char* named = std::getenv("TRIREME_LIBPYTHON");
  for (const std::string& candidate : {std::string(named == nullptr ? "" : named), beside.string(), name}) {
    if (candidate.empty()) continue;
    if (void* library = dlopen(candidate.c_str(), RTLD_NOW | RTLD_GLOBAL)) return library;
  }
  throw InputError("device npu: ", name, " cannot be loaded (", dlerror(),
                   "), which torch_npu needs; install it (Debian and Ubuntu: apt-get install lib", python,
                   "), or add its folder to LD_LIBRARY_PATH");
}

// The folder above lib/python3.N that holds Python's standard library.
fs::path HomeOf(void* library, const std::string& python) {
  link_map* map = nullptr;
  if (dlinfo(library, RTLD_DI_LINKMAP, &map) != 0) return {};
  for (fs::path up = fs::path(map->l_name).parent_path(); up.has_relative_path(); up = up.parent_path()) {
    if (fs::exists(up / "lib" / python / "os.py")) return up;
  }
  return {};
}

// Sets a variable only while the interpreter starts, unless the user has set it.
class ForAWhile {
 public:
  ForAWhile(const char* name, const std::string& value) : name_(name), ours_(std::getenv(name) == nullptr) {
    if (ours_ && !value.empty()) setenv(name, value.c_str(), 1);
  }
  ~ForAWhile() {
    if (ours_) unsetenv(name_);
  }
  ForAWhile(const ForAWhile&) = delete;
  ForAWhile& operator=(const ForAWhile&) = delete;

 private:
  const char* name_;
  const bool ours_;
};

constexpr const char* kFailed = "failed: ";

// Wraps the code so that nothing it prints reaches stdout, which belongs to the program.
std::string Wrapped(const std::string& code) {
  std::string lines =
      "import contextlib, io, warnings\nresult = ''\ntry:\n"
      "  with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():\n"
      "    warnings.simplefilter('ignore')\n";
  size_t begin = 0;
  while (begin < code.size()) {
    const size_t end = std::min(code.find('\n', begin), code.size());
    lines += "    " + code.substr(begin, end - begin) + "\n";
    begin = end + 1;
  }
  return lines + "except BaseException as error:\n  result = " + EmbeddedPython::Quote(kFailed) +
         " + type(error).__name__ + ': ' + ' '.join(str(error).split())\n";
}

}  // namespace

EmbeddedPython::EmbeddedPython() {
  const fs::path site = TorchSite();
  const std::string python = PythonNameOf(site);
  library_ = OpenLibrary(python, site);
  {
    const ForAWhile home("PYTHONHOME", HomeOf(library_, python).string());
    Symbol<void(int)>(library_, "Py_InitializeEx")(0);  // 0: the program keeps its signal handlers
  }
  Symbol<void*()>(library_, "PyEval_SaveThread")();
  Run("import site\nsite.addsitedir(" + Quote(site.string()) + ")");
}

std::string EmbeddedPython::Run(const std::string& code) const {
  const int state = Symbol<int()>(library_, "PyGILState_Ensure")();
  std::string result = kFailed;
  if (Symbol<int(const char*)>(library_, "PyRun_SimpleString")(Wrapped(code).c_str()) == 0) {
    void* module = Symbol<void*(const char*)>(library_, "PyImport_AddModule")("__main__");
    void* value = Symbol<void*(void*, const char*)>(library_, "PyObject_GetAttrString")(module, "result");
    const char* text = Symbol<const char*(void*)>(library_, "PyUnicode_AsUTF8")(value);
    result = text == nullptr ? kFailed : text;
  }
  Symbol<void(int)>(library_, "PyGILState_Release")(state);
  if (result.starts_with(kFailed)) throw InputError("Python: ", result.substr(std::string(kFailed).size()));
  return result;
}

std::string EmbeddedPython::Quote(const std::string& text) {
  std::string literal = "'";
  for (const char c : text) {
    if (c == '\'' || c == '\\') literal += '\\';
    literal += c;
  }
  return literal + "'";
}

}  // namespace trireme
