#include "train/report/summary.h"

#include <algorithm>
#include <fstream>
#include <iomanip>
#include <sstream>

#include "checkpoint/adapter_config.h"
#include "checkpoint/run_checkpoints.h"
#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/json.h"
#include "core/base/process.h"
#include "core/config/scalar.h"
#include "stages/evaluation_check.h"
#include "stages/retrieval_check.h"
#include "stages/stage.h"
#include "train/report/screen.h"

namespace trireme {
namespace {

void PrintEnds(const char* name, const std::vector<LogCurves::Point>& curve, std::ostream& out) {
  if (curve.empty()) return;
  const LogCurves::Point &first = curve.front(), &last = curve.back();
  out << "  " << name << " " << first.loss << " at step " << first.step << ", " << last.loss << " at step " << last.step
      << "\n";
}

// The last evaluation and the best one, by the loss or the metric that the run is judged by.
void PrintEvaluations(const Config& config, const LogCurves& losses, const std::filesystem::path& output,
                      std::ostream& out) {
  const std::string metric = EvaluationMetric(config);
  const std::vector<LogCurves::Point> curve =
      metric.empty() ? losses.eval : ReadCurves(output / "log.jsonl", metric).eval;
  if (curve.empty()) return;
  const LogCurves::Point& best = *std::ranges::min_element(
      curve, {}, [&](const LogCurves::Point& point) { return metric.empty() ? point.loss : -point.loss; });
  out << "  eval " << (metric.empty() ? "loss" : metric) << " " << curve.back().loss << " at step " << curve.back().step
      << (metric.empty() ? ", lowest " : ", highest ") << best.loss << " at step " << best.step;
  const std::filesystem::path checkpoint = CheckpointPath(output, best.step);
  if (std::filesystem::exists(checkpoint)) out << ": " << checkpoint.string();
  out << "\n";
}

// A policy's loss is 0 on average by construction; what it is after is the reward.
void PrintLosses(const Config& config, const LogCurves& curves, const std::filesystem::path& output,
                 std::ostream& out) {
  const LogCurves rewards = ReadCurves(output / "log.jsonl", "reward");
  if (rewards.train.empty()) {
    PrintEnds("loss", curves.train, out);
  } else {
    PrintEnds("reward", rewards.train, out);
  }
  PrintEvaluations(config, curves, output, out);
}

// Whether it is an adapter with all experts of a layer fused (checkpoint/adapter_fusion.h), which
// PEFT reads with transformers 5 only.
bool HasFusedExperts(const std::filesystem::path& final) {
  const std::filesystem::path file = final / kAdapterConfigFile;
  std::error_code ignored;
  if (!std::filesystem::exists(file, ignored)) return false;
  const Json config = ReadJsonFile(file.string());
  const auto targets = config.find("target_parameters");
  return targets != config.end() && targets->dump().find("experts") != std::string::npos;
}

bool Exists(const std::filesystem::path& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored);
}

// Whether `generate` can render conversations for this model.
bool HasChatTemplate(const Config& config) {
  const std::filesystem::path model = config.model().path();
  if (!config.data().template_().empty() || Exists(model / "chat_template.jinja")) return true;
  std::ifstream file(model / "tokenizer_config.json");
  const Json tokenizer = Json::parse(file, nullptr, /*allow_exceptions=*/false);
  return tokenizer.is_object() && tokenizer.contains("chat_template");
}

// The command to generate with the model as it was trained: chat with its template, or plain text. Empty
// if it has no tokenizer, as with rows of token ids.
std::string GenerateWords(const Config& config, const std::string& model_words) {
  if (!Exists(std::filesystem::path(config.model().path()) / "tokenizer.json")) return "";
  if (FactsOf(config).records == Records::kText || !HasChatTemplate(config)) return model_words + " --prompt 'Hello'";
  std::string words = model_words + " --chat";
  if (!config.data().template_().empty()) words += " --set " + ShellWord("data.template=" + config.data().template_());
  if (!config.data().system().empty())
    words += " --set " + ShellWord("data.system=" + QuotedIfNeeded(config.data().system()));
  return words;
}

// Commands to use the resulting model.
void PrintNext(const Config& config, const std::filesystem::path& output, const std::string& program,
               std::ostream& out) {
  const std::string final = ShellWord((output / "final").string());
  const std::string model = ShellWord(config.model().path());
  const bool adapter = config.tuning().kind() == TUNING_LORA;
  const bool has_base = !adapter || config.model().init() == MODEL_INIT_WEIGHTS;
  const std::string words = "--model " + (adapter ? model + " --adapters " + final : final);
  std::string use;  // nothing here uses vectors, or labels
  if (!TrainsTexts(FactsOf(config))) {
    use = FactsOf(config).head == HeadKind::kScore ? "score " + words + " --data FILE.jsonl"
                                                   : GenerateWords(config, "generate " + words);
  }
  out << "next:\n";
  if (has_base && !use.empty()) out << "  " << program << " " << use << "\n";
  if (adapter && has_base) {
    out << "  " << program << " merge --model " << model << " --adapters " << final << " --to "
        << ShellWord((output / "merged").string()) << "\n";
  }
  out << "  tensorboard --logdir " << ShellWord((output / "events").string()) << "\n";
}

}  // namespace

std::string EndSummary(const Config& config, const RunEnd& end, const LogCurves& curves, const std::string& program) {
  const std::filesystem::path output = config.run().output();
  const std::string metric = EvaluationMetric(config);
  const std::string better = metric.empty() ? "lower evaluation loss" : "higher eval_" + metric;
  const std::string best = metric.empty() ? "evaluation loss was the lowest" : "eval_" + metric + " was the highest";
  std::ostringstream out;
  out << std::fixed << std::setprecision(4);
  if (end.stopped()) {
    out << "stopped at step " << end.step << " of " << end.total_steps << " after " << ClockText(end.seconds)
        << "; saved as " << CheckpointPath(output, end.step).string() << "\n  the same command resumes from there\n";
    return out.str();
  }
  if (end.trained) {
    out << "done: step " << end.step << " of " << end.total_steps << ", " << ClockText(end.seconds)
        << (end.early ? "; eval.early_stopping ended the run: no " + better : "") << "\n";
  } else {
    out << "already complete: step " << end.step << " of " << end.total_steps << "; nothing was trained\n";
  }
  PrintLosses(config, curves, output, out);
  out << "  " << (output / "final").string() << ": the "
      << (config.tuning().kind() == TUNING_LORA ? "adapter, as PEFT reads it" : "model, as Hugging Face reads it")
      << (end.final_step > 0 ? Concat(", of step ", end.final_step, ", whose ", best) : "")
      << (HasFusedExperts(output / "final") ? " with transformers 5" : "") << "; "
      << (output / (Exists(output / "reward.svg") ? "reward.svg" : "loss.svg")).string() << ": its curve\n";
  PrintNext(config, output, program, out);
  if (HasFusedExperts(output / "final")) {
    out << "  " << program << " convert --from " << ShellWord(CheckpointPath(output, end.step).string()) << " --to "
        << ShellWord((output / "adapter-transformers-4").string())
        << " --experts-apart  # for transformers 4, where PEFT would ignore the experts\n";
  }
  return out.str();
}

}  // namespace trireme
