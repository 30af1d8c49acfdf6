#include "train/evaluation/predictions.h"

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/json.h"
#include "core/io/atomic_file.h"
#include "train/evaluation/text_scores.h"

namespace trireme {

std::map<std::string, double> MeanScores(const std::vector<Prediction>& predictions) {
  std::map<std::string, double> means;
  const double part = 1 / static_cast<double>(predictions.size());
  for (const Prediction& one : predictions) {
    const TextScores scores = ScoreText(one.prediction, one.label);
    means["exact_match"] += part * scores.exact_match;
    means["rouge-1"] += part * scores.rouge_1;
    means["rouge-2"] += part * scores.rouge_2;
    means["rouge-l"] += part * scores.rouge_l;
    means["bleu-4"] += part * scores.bleu_4;
  }
  return means;
}

std::string PredictionLines(const std::vector<Prediction>& predictions) {
  std::string lines;
  for (const Prediction& one : predictions) {
    lines += JsonLine({{"prompt", one.prompt},
                       {"prediction", one.prediction},
                       {"label", one.label},
                       {"finish_reason", one.finish_reason}}) +
             "\n";
  }
  return lines;
}

std::filesystem::path WritePredictions(const std::filesystem::path& directory, const std::string& name,
                                       const std::string& lines) {
  std::filesystem::path path = directory / (name + ".jsonl");
  for (int number = 1; PathExists(path); ++number) path = directory / Concat(name, "-", number, ".jsonl");
  WriteAtomicFile(path, lines);
  return path;
}

}  // namespace trireme
