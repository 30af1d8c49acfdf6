// Predictions: what a model wrote for validation conversations, with what the data has; their mean scores, and their
// file. Who writes them is decided elsewhere. No torch.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace trireme {

struct Prediction {
  std::string prompt;  // as the model reads it, with special tokens
  std::string prediction, label;
  std::string finish_reason;                                 // "stop", or "length": it was not finished
  std::vector<int64_t> prediction_ids = {}, label_ids = {};  // with the token that ends them; not in the file
};

// By the names of the log: exact_match, rouge-1, rouge-2, rouge-l, bleu-4; means over the predictions.
std::map<std::string, double> MeanScores(const std::vector<Prediction>& predictions);

// The directory's NAME.jsonl, or NAME-1.jsonl and so on: nothing is overwritten. Returns its path.
std::filesystem::path WritePredictions(const std::filesystem::path& directory, const std::string& name,
                                       const std::string& lines);
// One JSON object per line.
std::string PredictionLines(const std::vector<Prediction>& predictions);

}  // namespace trireme
