#include "train/report/summary.h"

#include <algorithm>
#include <iomanip>
#include <sstream>

#include "checkpoint/adapter_config.h"
#include "checkpoint/run_checkpoints.h"
#include "core/base/file.h"
#include "core/base/process.h"
#include "train/report/screen.h"

namespace trireme {
namespace {

void PrintLosses(const LogCurves& curves, const std::filesystem::path& output, std::ostream& out) {
  if (!curves.train.empty()) {
    const LogCurves::Point &first = curves.train.front(), &last = curves.train.back();
    out << "  loss " << first.loss << " at step " << first.step << ", " << last.loss << " at step "
        << last.step << "\n";
  }
  if (curves.eval.empty()) return;
  const LogCurves::Point& best =
      *std::min_element(curves.eval.begin(), curves.eval.end(),
                        [](const LogCurves::Point& a, const LogCurves::Point& b) { return a.loss < b.loss; });
  out << "  eval loss " << curves.eval.back().loss << " at step " << curves.eval.back().step << ", lowest "
      << best.loss << " at step " << best.step;
  const std::filesystem::path checkpoint = CheckpointPath(output, best.step);
  if (std::filesystem::exists(checkpoint)) out << ": " << checkpoint.string();
  out << "\n";
}

// Whether it is an adapter with all experts of a layer in one tensor (checkpoint/adapter_fusion.h), which
// PEFT reads with transformers 5 only.
bool HasFusedExperts(const std::filesystem::path& final) {
  const std::filesystem::path file = final / kAdapterConfigFile;
  std::error_code ignored;
  if (!std::filesystem::exists(file, ignored)) return false;
  const Json config = ReadJsonFile(file.string());
  const auto targets = config.find("target_parameters");
  return targets != config.end() && targets->dump().find("experts") != std::string::npos;
}

// What can be done with the model that came out.
void PrintNext(const Config& config, const std::filesystem::path& output, const std::string& program,
               std::ostream& out) {
  const std::string final = ShellWord((output / "final").string());
  const std::string model = ShellWord(config.model().path());
  const bool adapter = config.tuning().kind() == TUNING_LORA;
  out << "next:\n  " << program << " generate --model " << (adapter ? model + " --adapters " + final : final)
      << " --prompt 'Hello'\n";
  if (adapter) {
    out << "  " << program << " merge --model " << model << " --adapters " << final << " --to "
        << ShellWord((output / "merged").string()) << "\n";
  }
  out << "  tensorboard --logdir " << ShellWord((output / "events").string()) << "\n";
}

}  // namespace

std::string EndSummary(const Config& config, const RunEnd& end, const LogCurves& curves,
                       const std::string& program) {
  const std::filesystem::path output = config.run().output();
  std::ostringstream out;
  out << std::fixed << std::setprecision(4);
  if (end.stopped()) {
    out << "stopped at step " << end.step << " of " << end.total_steps << " after " << ClockText(end.seconds)
        << "; saved as " << CheckpointPath(output, end.step).string()
        << "\n  the same command goes on from there\n";
    return out.str();
  }
  out << "done: step " << end.step << " of " << end.total_steps << ", " << ClockText(end.seconds) << "\n";
  PrintLosses(curves, output, out);
  out << "  " << (output / "final").string() << ": the "
      << (config.tuning().kind() == TUNING_LORA ? "adapter, as PEFT reads it"
                                                : "model, as Hugging Face reads it")
      << (HasFusedExperts(output / "final") ? " with transformers 5" : "") << "; "
      << (output / "loss.svg").string() << ": its curve\n";
  PrintNext(config, output, program, out);
  if (HasFusedExperts(output / "final")) {
    out << "  " << program << " convert --from " << ShellWord(CheckpointPath(output, end.step).string())
        << " --to " << ShellWord((output / "adapter-transformers-4").string())
        << " --experts-apart  # for transformers 4, where PEFT would leave the experts out\n";
  }
  return out.str();
}

}  // namespace trireme
