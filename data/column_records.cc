// Records of files of columns: opens the module that is linked with Arrow's libraries (data/columns).
#include <dlfcn.h>

#include <memory>
#include <string>
#include <utility>

#include "core/base/error.h"
#include "core/base/own_files.h"
#include "data/columns/column_file.h"
#include "data/records.h"

namespace trireme {
namespace {

OpenColumnFile* OpenColumnsModule(const std::filesystem::path& path) {
  const std::filesystem::path library = OwnFile("libtrireme_columns.so");
  if (library.empty()) {
    throw InputError(
        path.string(), ": this build reads no ", path.extension().string(), " files, for Arrow's libraries were ",
        "missing: run scripts/setup, remove build/CMakeCache.txt and run scripts/build, or convert the file: ",
        "datasets.load_dataset(…).to_json(\"a.jsonl\")");
  }
  void* module = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  void* function = module != nullptr ? dlsym(module, kOpenColumnFile) : nullptr;
  if (function == nullptr)
    throw RuntimeError(
        path.string(), ": ", dlerror(),
        "; run scripts/setup and scripts/build again, in an installed Trireme pip install 'trireme-train[columns]'");
  return reinterpret_cast<OpenColumnFile*>(function);
}

class ColumnRecords : public RecordFile {
 public:
  ColumnRecords(const std::filesystem::path& path, std::unique_ptr<ColumnFile> file)
      : path_(path.string()), file_(std::move(file)) {}
  int64_t size() const override { return file_->rows(); }
  std::string Where(int64_t record) const override { return Concat(path_, ": row ", record + 1); }
  Json Read(int64_t record) const override {
    std::string error;
    Json row = file_->Read(record, error);
    if (error.empty()) return row;
    throw InputError(Where(record), ": cannot be read: ", error, "; is the file damaged?");
  }

 private:
  const std::string path_;
  const std::unique_ptr<ColumnFile> file_;
};

}  // namespace

std::unique_ptr<RecordFile> OpenColumns(const std::filesystem::path& path) {
  static OpenColumnFile* const open = OpenColumnsModule(path);
  std::string error;
  std::unique_ptr<ColumnFile> file(open(path.c_str(), error));
  if (file) return std::make_unique<ColumnRecords>(path, std::move(file));
  throw InputError(path.string(), ": is not a ", path.extension() == ".parquet" ? "Parquet" : "Arrow",
                   " file, or is damaged: ", error);
}

}  // namespace trireme
