#include "generation/text/answer_prompts.h"

#include <optional>

#include "core/base/error.h"

namespace trireme {
namespace {

// Of the conversation at [begin, end) of a row. Its first token is never trained, so that a prompt has at least one.
std::optional<AnswerPrompt> LastAnswer(const Row& row, size_t begin, size_t end) {
  size_t last = end;
  while (last > begin + 1 && row.labels[last - 1] == kNotTrained) --last;
  size_t first = last;
  while (first > begin + 1 && row.labels[first - 1] != kNotTrained) --first;
  if (first == last) return std::nullopt;
  const auto at = [&](size_t index) { return row.input_ids.begin() + static_cast<int64_t>(index); };
  return AnswerPrompt{.prompt = {at(begin), at(first)}, .label = {at(first), at(last)}};
}

}  // namespace

std::vector<AnswerPrompt> AnswerPromptsOf(const RowSource& rows, int64_t most) {
  std::vector<AnswerPrompt> prompts;
  for (int64_t i = 0; i < rows.size(); ++i) {
    const Row row = rows.Read(i);
    if (!row.images.empty() || !row.grids.empty()) {
      throw InputError("eval.generate: validation row ", i + 1,
                       " has images, and evaluation generates answers to text only; set ",
                       "eval.generate to false, or keep records with images out of data.valid");
    }
    const std::vector<int64_t> starts = row.starts.empty() ? std::vector<int64_t>{0} : row.starts;
    for (size_t document = 0; document < starts.size(); ++document) {
      const size_t end =
          document + 1 < starts.size() ? static_cast<size_t>(starts[document + 1]) : row.input_ids.size();
      std::optional<AnswerPrompt> prompt = LastAnswer(row, static_cast<size_t>(starts[document]), end);
      if (prompt) prompts.push_back(std::move(*prompt));
      if (most > 0 && std::ssize(prompts) == most) return prompts;
    }
  }
  return prompts;
}

}  // namespace trireme
