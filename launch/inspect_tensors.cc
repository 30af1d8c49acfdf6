#include "launch/inspect_tensors.h"

#include <sys/stat.h>

#include <algorithm>
#include <ctime>
#include <iomanip>
#include <iostream>
#include <iterator>
#include <sstream>
#include <system_error>

#include "checkpoint/manifest.h"
#include "checkpoint/run_checkpoints.h"
#include "checkpoint/store_reader.h"
#include "checkpoint/tensor_list.h"
#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/text.h"
#include "train/report/log_file.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

std::string Megabytes(int64_t bytes) {
  std::ostringstream text;
  text << std::fixed << std::setprecision(bytes < 10'000'000 ? 3 : 1) << static_cast<double>(bytes) / 1e6 << " MB";
  return text.str();
}

void PrintHeader(const checkpoint::Manifest& manifest) {
  const checkpoint::Layout& layout = manifest.layout();
  std::cout << "checkpoint of a " << Printable(manifest.family()) << " model, format " << manifest.format()
            << ", written by " << Printable(manifest.writer()) << " on " << Counted(layout.world(), "rank");
  if (layout.tensor() > 0) {
    std::cout << ": tensor " << layout.tensor() << ", pipeline " << layout.pipeline() << ", context "
              << layout.context() << ", data " << layout.data() << ", zero " << layout.zero() << ", "
              << Printable(layout.schedule()) << ", " << Printable(layout.dtype());
  }
  std::cout << "\n";
  if (!manifest.has_progress()) {
    std::cout << "weights only\n";
    return;
  }
  const checkpoint::Progress& progress = manifest.progress();
  std::cout << "step " << progress.step() << ", " << progress.updates() << " updates, ";
  if (!progress.has_data()) {
    std::cout << "of another system's run\n";
    return;
  }
  std::cout << "seed " << progress.seed() << ", batches of " << progress.data().global_batch() << " of "
            << progress.data().rows() << " rows\n";
}

void PrintVerifiedDigests(const StoreReader& reader) {
  const int files = reader.VerifyFiles();
  std::cout << "every piece matches its digest";
  if (reader.manifest().format() >= kFirstDigested) std::cout << ", the manifest and " << files << " files, too";
  std::cout << "\n";
}

void PrintTensors(TensorList& list, bool digests) {
  int64_t total = 0;
  size_t width = 0;
  constexpr size_t kWidest = 100;  // one long name must not widen all other lines
  for (const ListedTensor& tensor : list.tensors()) {
    width = std::max(width, std::min(kWidest, Printable(tensor.name).size()));
  }
  for (const ListedTensor& tensor : list.tensors()) {
    std::cout << std::left << std::setw(static_cast<int>(width) + 2) << Printable(tensor.name) << std::setw(6)
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
    std::cout << Printable(line) << "\n";
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
  std::cout << (differences == 0 ? "no difference in " : Concat(differences, " differences in ")) << a.tensors().size()
            << " tensors\n";
  return differences > 0;
}

// Of the files below a folder; those that vanish meanwhile count nothing.
int64_t BytesBelow(const fs::path& folder) {
  int64_t bytes = 0;
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder, ignored)) {
    if (entry.is_regular_file(ignored)) bytes += static_cast<int64_t>(entry.file_size(ignored));
  }
  return bytes;
}

std::string TimeText(const fs::path& path) {
  struct stat found = {};
  std::tm time = {};
  if (stat(path.c_str(), &found) != 0 || localtime_r(&found.st_mtime, &time) == nullptr) return "";
  std::ostringstream text;
  text << std::put_time(&time, "%Y-%m-%d %H:%M");
  return text.str();
}

// "  loss 2.1345" of the last logged step up to this one; empty where none was logged.
std::string ValueAt(const char* name, const std::vector<LogCurves::Point>& curve, int64_t step) {
  const auto after = std::ranges::find_if(curve, [&](const LogCurves::Point& point) { return point.step > step; });
  if (after == curve.begin()) return "";
  std::ostringstream text;
  text << std::fixed << std::setprecision(4) << "  " << name << " " << std::prev(after)->loss;
  return text.str();
}

void PrintOfRun(const std::string& name, const fs::path& path, const std::string& values) {
  std::cout << "  " << std::left << std::setw(18) << Printable(name) << TimeText(path) << "  " << std::right
            << std::setw(12) << Megabytes(BytesBelow(path)) << values << "\n";
}

bool PrintRun(const fs::path& path) {
  const std::vector<RunCheckpoint> found = FindCheckpoints(path);
  if (found.empty()) return false;
  const LogCurves losses = ReadCurves(path / "log.jsonl"), rewards = ReadCurves(path / "log.jsonl", "reward");
  std::cout << "a run with " << Counted(static_cast<int64_t>(found.size()), "checkpoint") << ":\n";
  for (const RunCheckpoint& one : found) {
    PrintOfRun(one.path.filename().string(), one.path,
               ValueAt("loss", losses.train, one.step) + ValueAt("eval loss", losses.eval, one.step) +
                   ValueAt("reward", rewards.train, one.step));
  }
  if (PathExists(path / "final")) PrintOfRun("final", path / "final", "");
  std::cout << "append one of them to the path to see its contents\n";
  return true;
}

bool HasSafetensors(const fs::path& folder) {
  std::error_code failed;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, failed)) {
    if (entry.path().extension() == ".safetensors") return true;
  }
  return false;
}

}  // namespace

bool HoldsTensors(const fs::path& path) {
  std::error_code ignored;
  if (!fs::is_directory(path, ignored)) return path.extension() == ".safetensors";
  return IsCheckpoint(path) || !FindCheckpoints(path).empty() || HasSafetensors(path);
}

void InspectTensors(const fs::path& path, bool digests) {
  if (PrintRun(path)) return;
  if (IsCheckpoint(path)) {
    StoreReader reader(path);
    if (digests) reader.Verify();
    PrintHeader(reader.manifest());
    if (digests) PrintVerifiedDigests(reader);
  }
  TensorList list(path);
  PrintTensors(list, digests);
}

void InspectDifferences(const fs::path& path, const fs::path& other) {
  TensorList a(path), b(other);
  PrintDifferences(a, b);
}

}  // namespace trireme
