#include "train/states/run_start.h"

#include <sstream>
#include <string>
#include <system_error>
#include <vector>

#include "checkpoint/manifest.h"
#include "checkpoint/megatron/checkpoint.h"
#include "checkpoint/run_checkpoints.h"
#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/json.h"
#include "core/base/log.h"
#include "core/base/process.h"
#include "core/base/text.h"
#include "core/config/print.h"
#include "core/io/atomic_file.h"
#include "core/io/file_system.h"
#include "train/states/run_record.h"

namespace trireme {
namespace {

// Another system's run has no position in the data that says anything here.
bool IsOfThisSystem(const checkpoint::DataPosition& data) { return data.global_batch() > 0; }

bool IsSame(const std::filesystem::path& a, const std::filesystem::path& b) {
  std::error_code ignored;
  return std::filesystem::equivalent(a, b, ignored);
}

void RefuseFile(const std::filesystem::path& output, const std::string& file, const std::string& why = "") {
  if (!PathExists(output / file)) return;
  throw InputError("run.output ", output.string(), " has a ", file, " already; choose another directory", why);
}

// Whether this same run started there and was interrupted before its first checkpoint. A completed run
// is not restarted, even if its checkpoints are gone.
bool WasBegun(const Config& config) {
  const std::filesystem::path output = config.run().output(), written = output / "run.yaml";
  return !PathExists(output / "final") && PathExists(written) && ReadTextFile(written.string()) == ToYaml(config);
}

// Why the existing run cannot be resumed: its settings.
std::string WhyAnother(const Config& config) {
  const std::filesystem::path output = config.run().output();
  if (config.run().resume() == "never") return "; run.resume: never needs one without a run";
  if (PathExists(output / "final")) return "";
  const std::vector<KeyDifference> differences = DifferencesFromRecord(output, config);
  if (differences.empty()) return "";
  return Concat(", or keep the settings of the run that was started there: ", ToText(differences));
}

RunStart FindStart(const Config& config, std::vector<std::string>* passed_over) {
  RunStart start{.output = config.run().output(), .checkpoint = std::nullopt};
  const std::string& resume = config.run().resume();
  if (resume == "never") return start;
  if (resume == "auto") {
    const auto newest = NewestComplete(start.output, passed_over);
    if (!newest) {
      start.same_run = WasBegun(config);
      return start;
    }
    start.checkpoint = newest->path;
  } else {
    if (!IsCheckpoint(resume)) {
      throw InputError("run.resume: ", resume, " is not a checkpoint; set auto, never or a run's checkpoint-N",
                       IsMegatron(resume) ? "; trireme convert --as checkpoint --optimizer makes one of it" : "");
    }
    start.checkpoint = resume;
  }
  start.progress = ReadManifest(*start.checkpoint).progress();
  start.step = start.progress.step();
  start.same_run = IsSame(FolderOf(*start.checkpoint), start.output);
  return start;
}

// A LoRA run's checkpoint contains only the adapter.
std::string StartAnew(const Config& config, const std::filesystem::path& checkpoint) {
  const bool adapter = config.tuning().kind() == TUNING_LORA;
  const bool drawn = !adapter && config.model().init() == MODEL_INIT_RANDOM;
  const std::string weights = Concat(adapter ? "tuning.adapters=" : "model.path=", checkpoint.string());
  return Concat("--set ", ShellWord(weights), drawn ? " --set model.init=weights" : "", " --set run.output=ANOTHER",
                config.run().resume() == "auto" ? "" : " --set run.resume=auto");
}

std::string RampText(const checkpoint::DataPosition& data) {
  std::vector<std::string> numbers;
  for (const int64_t number : data.batch_ramp()) numbers.push_back(std::to_string(number));
  return Concat("[", Join(numbers), "]");
}

void RefuseNewer(const RunStart& start) {
  for (const RunCheckpoint& found : FindCheckpoints(start.output)) {
    if (start.same_run && found.step <= start.step) continue;
    throw InputError("run.output ", start.output.string(), " has a ", found.path.filename().string(),
                     start.same_run ? Concat(", newer than step ", start.step, " to resume from") : "",
                     "; move it away or choose another directory");
  }
}

}  // namespace

void RefuseNoOutput(const Config& config) {
  if (!config.run().output().empty()) return;
  throw InputError("run.output is empty; name a directory for what the run writes");
}

RunStart PrepareRun(const Config& config, Job& job) {
  std::vector<std::string> passed_over;
  const RunStart start = FindStart(config, &passed_over);
  if (!start.same_run) {
    for (const char* file : {"log.jsonl", "run.yaml", "final", "final_value", "events", "loss.svg", "rollouts.jsonl"})
      RefuseFile(start.output, file, WhyAnother(config));
  }
  if (!start.same_run || config.log().trace() > 0) RefuseFile(start.output, "trace.json");
  std::vector<RunCheckpoint> damaged;
  if (passed_over.empty()) {
    RefuseNewer(start);
  } else {
    for (const RunCheckpoint& found : FindCheckpoints(start.output)) {
      if (found.step > start.step || !start.checkpoint) damaged.push_back(found);
    }
  }
  job.Barrier();  // all ranks have checked
  if (job.rank() == 0) {
    if (start.step > 0 && !IsOfThisSystem(start.progress.data())) {
      TRIREME_LOG(INFO) << start.checkpoint->string()
                        << " is of another system's run, whose position in the data is not "
                        << "known: the next step takes the rows of step " << start.step + 1 << " of this run";
    }
    for (const std::string& why : passed_over) TRIREME_LOG(WARNING) << "skipped: " << why;
    for (const RunCheckpoint& one : damaged) {
      RenameAndSync(one.path, one.path.string() + ".damaged");
    }
  }
  job.Barrier();
  return start;
}

void CheckSameData(const checkpoint::DataPosition& saved, const checkpoint::DataPosition& now,
                   const std::filesystem::path& checkpoint, const Config& config) {
  if (!IsOfThisSystem(saved)) return;
  const auto want = [&](const char* what, auto was, auto is) {
    if (was == is) return;
    throw InputError(checkpoint.string(), ": was trained with ", what, " ", was, ", this run has ", is,
                     "; its position in the data would be lost. Keep it, or start over from its weights: ",
                     StartAnew(config, checkpoint));
  };
  want("run.global_batch", saved.global_batch(), now.global_batch());
  want("run.batch_ramp", RampText(saved), RampText(now));
  want("data.shuffle", saved.shuffle(), now.shuffle());
  want("run.seed", saved.seed(), now.seed());
  want("rows in data.train:", saved.rows(), now.rows());
}

void CutLog(const std::filesystem::path& log, int64_t step) {
  if (!PathExists(log)) return;
  std::istringstream lines(ReadTextFile(log.string()));
  std::string kept;
  for (std::string line; std::getline(lines, line);) {
    const Json object = Json::parse(line, nullptr, /*allow_exceptions=*/false);
    // The last line of a run that was killed may be truncated.
    if (object.is_object() && object.value("step", int64_t{0}) <= step) kept += line + "\n";
  }
  WriteAtomicFile(log, kept);
}

}  // namespace trireme
