#include "train/report/screen.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <iomanip>
#include <sstream>
#include <string_view>
#include <utility>

#include "core/base/error.h"

namespace trireme {
namespace {

constexpr std::chrono::milliseconds kBetweenDrawings{100};

int ColumnsOf(int terminal) {
  winsize size = {};
  if (ioctl(terminal, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  const char* told = std::getenv("COLUMNS");
  const int columns = told == nullptr ? 0 : std::atoi(told);
  return columns > 0 ? columns : ScreenOptions().columns;
}

// A value above one means that the machine was slower when its peak was measured than it is now.
std::string MfuText(double mfu) {
  std::ostringstream text;
  text << std::fixed << std::setprecision(1) << "mfu ";
  if (mfu > 1) {
    text << "unsure (" << 100 * mfu << " %)";
  } else {
    text << 100 * mfu << " %";
  }
  return text.str();
}

// Those that people watch.
std::string MetricsText(const MetricValues& metrics) {
  std::ostringstream text;
  text << std::fixed << std::setprecision(3);
  for (const auto& [name, word] :
       {std::pair{"rewards/accuracies", "accuracy"}, std::pair{"rewards/margins", "margin"},
        std::pair{"accuracy", "accuracy"}, std::pair{"margin", "margin"}, std::pair{"reward", "reward"},
        std::pair{"completions/mean_length", "length"}, std::pair{"kl", "kl"}, std::pair{"perplexity", "perplexity"},
        std::pair{"exact_match", "exact match"}, std::pair{"rouge-l", "rouge-l"}, std::pair{"bleu-4", "bleu-4"}}) {
    if (const auto found = metrics.find(name); found != metrics.end()) text << "  " << word << " " << found->second;
  }
  return text.str();
}

std::string Line(const LoggedStep& step) {
  std::ostringstream line;
  line << "step " << step.step << "/" << step.total_steps << std::fixed << std::setprecision(4) << "  loss "
       << step.loss << MetricsText(step.metrics) << "  norm " << std::setprecision(3) << step.grad_norm
       << std::scientific << std::setprecision(2) << "  lr " << step.learning_rate << std::fixed << std::setprecision(0)
       << "  " << step.tokens_per_second << " tokens/s" << std::setprecision(2) << "  " << step.step_seconds << " s  "
       << MfuText(step.mfu) << "  " << std::setprecision(2) << step.memory_gib << " GiB  left "
       << ClockText(step.remaining_seconds());
  if (!step.skipped.empty()) line << "  update skipped: " << step.skipped;
  return line.str();
}

std::string EvaluationLine(const LoggedStep& step) {
  std::ostringstream line;
  const Evaluation& evaluation = *step.evaluation;
  line << "step " << step.step << "/" << step.total_steps << std::fixed << std::setprecision(4) << "  eval";
  if (evaluation.loss) line << " loss " << *evaluation.loss;
  if (evaluation.token_accuracy) line << "  token accuracy " << *evaluation.token_accuracy;
  const auto judged = evaluation.metrics.find(evaluation.judged_by);
  if (judged != evaluation.metrics.end()) line << " " << judged->first << " " << judged->second;
  line << MetricsText(evaluation.metrics) << std::setprecision(2) << "  " << evaluation.seconds << " s";
  return line.str();
}

// The numbers come first: the bar gets the rest of the line.
std::string Bar(const LoggedStep& step, int columns) {
  constexpr int kWidest = 30, kNarrowest = 5;
  std::ostringstream text;
  text << step.step << "/" << step.total_steps << std::fixed << std::setprecision(4) << "  loss " << step.loss
       << std::setprecision(0) << "  " << step.tokens_per_second << " tokens/s  " << MfuText(step.mfu) << "  "
       << std::setprecision(1) << step.memory_gib << " GiB  left " << ClockText(step.remaining_seconds());
  const std::string brackets = "[] ";
  const int room = columns - 1 - static_cast<int>(text.str().size() + brackets.size());
  if (room < kNarrowest) return text.str();
  const int width = std::min(room, kWidest), filled = static_cast<int>(width * step.step / step.total_steps);
  return "[" + std::string(filled, '=') + std::string(width - filled, ' ') + "] " + text.str();
}

}  // namespace

std::string ClockText(double seconds) {
  const auto whole = static_cast<int64_t>(std::max(seconds, 0.0) + 0.5);
  std::ostringstream text;
  text << std::setfill('0');
  if (whole >= 3600) text << whole / 3600 << ":" << std::setw(2);
  text << whole / 60 % 60 << ":" << std::setw(2) << whole % 60;
  return text.str();
}

ReportForm ParseReportForm(const std::string& name) {
  if (name == "rich") return ReportForm::kRich;
  if (name == "plain") return ReportForm::kPlain;
  if (name == "json") return ReportForm::kJson;
  if (name == "events") return ReportForm::kEvents;
  throw InputError("--report ", name, ": wanted rich, plain, json or events");
}

ScreenOptions ScreenOf(bool under_mpi, ReportForm form) {
  const char* told = std::getenv("TRIREME_TERMINAL");
  const bool is_terminal = under_mpi ? told != nullptr && std::string_view(told) == "1" : isatty(STDOUT_FILENO) == 1;
  return {.bar = is_terminal && form == ReportForm::kRich,
          .columns = ColumnsOf(STDOUT_FILENO),
          .json = form == ReportForm::kJson || form == ReportForm::kEvents,
          .saves = form == ReportForm::kEvents};
}

void Screen::Show(const LoggedStep& step, bool logged) {
  if (step.step == 0 && step.evaluation) return Say(EvaluationLine(step));
  if (!step.skipped.empty() && options_.bar) Say(Line(step));
  if (step.evaluation && options_.bar) Say(EvaluationLine(step));
  if (options_.bar) {
    const Clock::time_point now = Clock::now();
    if (now - drawn_at_ < kBetweenDrawings && step.step < step.total_steps) return;
    drawn_at_ = now;
    return Draw(Bar(step, options_.columns));
  }
  if (logged) Say(Line(step));
  if (step.evaluation) Say(EvaluationLine(step));
}

void Screen::Draw(const std::string& text) {
  out_ << '\r' << text.substr(0, static_cast<size_t>(options_.columns - 1)) << "\x1b[K" << std::flush;
  drawn_ = true;
}

void Screen::Say(const std::string& text) {
  if (drawn_) out_ << "\r\x1b[K";
  drawn_ = false;
  out_ << text << std::endl;
}

void Screen::Finish() {
  if (drawn_) out_ << std::endl;
  drawn_ = false;
}

}  // namespace trireme
