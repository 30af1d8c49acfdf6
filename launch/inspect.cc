// `trireme inspect`: what is in a checkpoint, a model or adapter directory, a safetensors file, a run; for
// two paths, where they differ.
#include <filesystem>
#include <iomanip>
#include <iostream>
#include <system_error>

#include "checkpoint/manifest.h"
#include "checkpoint/run_checkpoints.h"
#include "checkpoint/store_reader.h"
#include "checkpoint/tensor_list.h"
#include "core/base/error.h"
#include "core/cli/command.h"
#include "core/comm/job.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

std::string Megabytes(int64_t bytes) {
  std::ostringstream text;
  text << std::fixed << std::setprecision(bytes < 10'000'000 ? 3 : 1) << static_cast<double>(bytes) / 1e6
       << " MB";
  return text.str();
}

void PrintHeader(const checkpoint::Manifest& manifest) {
  const checkpoint::Layout& layout = manifest.layout();
  std::cout << "checkpoint of a " << manifest.family() << " model, format " << manifest.format()
            << ", written by " << manifest.writer() << " on " << layout.world() << " ranks";
  if (layout.tensor() > 0) {
    std::cout << ": tensor " << layout.tensor() << ", pipeline " << layout.pipeline() << ", context "
              << layout.context() << ", data " << layout.data() << ", zero " << layout.zero() << ", "
              << layout.schedule() << ", " << layout.dtype();
  }
  std::cout << "\n";
  if (!manifest.has_progress()) {
    std::cout << "weights only\n";
    return;
  }
  const checkpoint::Progress& progress = manifest.progress();
  std::cout << "step " << progress.step() << ", " << progress.updates() << " updates, seed "
            << progress.seed() << ", batches of " << progress.data().global_batch() << " of "
            << progress.data().rows() << " rows\n";
}

void PrintTensors(TensorList& list, bool digests) {
  int64_t total = 0;
  size_t width = 0;
  for (const ListedTensor& tensor : list.tensors()) width = std::max(width, tensor.name.size());
  for (const ListedTensor& tensor : list.tensors()) {
    std::cout << std::left << std::setw(static_cast<int>(width) + 2) << tensor.name << std::setw(6)
              << Name(tensor.dtype) << std::setw(16) << ShapeText(tensor.shape) << std::setw(12)
              << Megabytes(tensor.bytes());
    if (tensor.pieces > 0) std::cout << tensor.pieces << (tensor.pieces == 1 ? " piece " : " pieces ");
    if (digests) std::cout << "crc32c " << DigestText(list.Digest(tensor));
    std::cout << "\n";
    total += tensor.bytes();
  }
  std::cout << list.tensors().size() << " tensors, " << Megabytes(total) << "\n";
}

// Returns whether anything differs.
bool PrintDifferences(TensorList& a, TensorList& b) {
  int64_t differences = 0;
  const auto say = [&](const std::string& line) {
    ++differences;
    std::cout << line << "\n";
  };
  for (const ListedTensor& one : a.tensors()) {
    const ListedTensor* other = b.Find(one.name);
    if (other == nullptr) {
      say(one.name + ": only in the first");
    } else if (one.shape != other->shape) {
      say(Concat(one.name, ": ", ShapeText(one.shape), " and ", ShapeText(other->shape)));
    } else if (const std::string how = CompareTensors(a, one, b, *other); !how.empty()) {
      say(one.name + ": " + how);
    }
  }
  for (const ListedTensor& other : b.tensors()) {
    if (a.Find(other.name) == nullptr) say(other.name + ": only in the second");
  }
  std::cout << (differences == 0 ? "no difference in " : Concat(differences, " differences in "))
            << a.tensors().size() << " tensors\n";
  return differences > 0;
}

bool PrintRun(const fs::path& path) {
  const std::vector<RunCheckpoint> found = FindCheckpoints(path);
  if (found.empty()) return false;
  std::cout << "a run with " << found.size() << " checkpoints:";
  for (const RunCheckpoint& one : found) std::cout << " " << one.path.filename().string();
  std::cout << "\nadd one of them to the path to see what is in it\n";
  return true;
}

void Inspect(const Arguments& arguments, Job& job) {
  if (job.rank() != 0) return;
  const fs::path path = arguments.value("PATH");
  std::error_code ignored;
  if (!fs::exists(path, ignored)) throw InputError(path.string(), " is not there");
  if (arguments.has("OTHER")) {
    TensorList a(path), b(arguments.value("OTHER"));
    PrintDifferences(a, b);
    return;
  }
  if (PrintRun(path)) return;
  if (IsCheckpoint(path)) {
    StoreReader reader(path);
    if (arguments.has("digests")) reader.Verify();
    PrintHeader(reader.manifest());
    if (arguments.has("digests")) std::cout << "every piece matches its digest\n";
  }
  TensorList list(path);
  PrintTensors(list, arguments.has("digests"));
}

}  // namespace

Command InspectCommand() {
  return {
      .name = "inspect",
      .summary =
          "Shows the tensors of a checkpoint, a model or adapter directory or a safetensors file; for two "
          "paths where they differ; for a run its checkpoints.",
      .options = {{.name = "digests",
                   .help = "read everything: print the digest of each whole tensor, and hold a checkpoint's "
                           "pieces against theirs"}},
      .positionals = {{.name = "PATH", .help = "what to look at"},
                      {.name = "OTHER", .help = "what to compare it with", .required = false}},
      .run = Inspect};
}

}  // namespace trireme
