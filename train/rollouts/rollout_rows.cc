#include "train/rollouts/rollout_rows.h"

#include <algorithm>
#include <limits>

#include "core/base/error.h"

namespace trireme {
namespace {

// The prompt's tokens that a completion's own document does not repeat: all but the last, which predicts its first
// token.
int64_t SharedPrompt(const Rollout& rollout) { return std::ssize(rollout.prompt_ids) - 1; }

int64_t LengthOf(const Rollout& rollout) { return std::ssize(rollout.prompt_ids) + std::ssize(rollout.completion_ids); }

void AddLogProbs(const Rollout& rollout, size_t prompt, std::vector<float>& sampled) {
  constexpr float kUnknown = std::numeric_limits<float>::quiet_NaN();
  sampled.insert(sampled.end(), prompt, 0);
  if (rollout.log_probs.empty()) {
    sampled.insert(sampled.end(), rollout.completion_ids.size(), kUnknown);
  } else {
    sampled.insert(sampled.end(), rollout.log_probs.begin(), rollout.log_probs.end());
  }
}

// Before the tokens of its prompt.
void AddImages(const Rollout& rollout, Row& row) {
  if (!rollout.images) return;
  for (RowImage image : *rollout.images) {
    image.first += std::ssize(row.input_ids);
    row.grids.push_back(image.grid);
    row.images.push_back(std::move(image));
  }
}

// One more document of the row.
void AddCompletion(const Rollout& rollout, size_t index, int64_t shared, bool masked, Row& row) {
  row.starts.push_back(std::ssize(row.input_ids));
  row.shared.push_back(shared);
  row.samples.push_back(std::ssize(row.samples));
  row.values.push_back(static_cast<float>(index));
  row.answer_tokens.push_back(masked ? 0 : WrittenTokens(rollout));
  if (shared == 0) AddImages(rollout, row);  // otherwise they are there, as the prompt is
  row.input_ids.insert(row.input_ids.end(), rollout.prompt_ids.begin() + shared, rollout.prompt_ids.end());
  row.labels.resize(row.input_ids.size(), kNotTrained);
  AddLogProbs(rollout, rollout.prompt_ids.size() - static_cast<size_t>(shared), row.sampled);
  row.input_ids.insert(row.input_ids.end(), rollout.completion_ids.begin(), rollout.completion_ids.end());
  for (size_t i = 0; i < rollout.completion_ids.size(); ++i) {
    const bool trained = !masked && (rollout.written.empty() || rollout.written[i]);
    row.labels.push_back(trained ? rollout.completion_ids[i] : kNotTrained);
  }
}

}  // namespace

Rows RowsOf(std::span<const Rollout> rollouts, const RolloutRowOptions& options) {
  constexpr size_t kMost = size_t{1} << 24;  // as far as fp32 counts
  TRIREME_CHECK(rollouts.size() < kMost) << rollouts.size() << " completions in one update";
  std::vector<Row> rows;
  const Rollout* open = nullptr;  // whose group the last row belongs to
  for (size_t i = 0; i < rollouts.size(); ++i) {
    const Rollout& rollout = rollouts[i];
    if (LengthOf(rollout) > options.longest) {
      throw InputError("a completion of ", rollout.completion_ids.size(), " tokens with its prompt of ",
                       rollout.prompt_ids.size(), " does not fit into data.max_length = ", options.longest,
                       "; raise it");
    }
    const int64_t shared = SharedPrompt(rollout);
    const bool joins = options.share_prompt && open != nullptr && IsSameGroup(*open, rollout) &&
                       open->prompt_ids == rollout.prompt_ids &&
                       std::ssize(rows.back().input_ids) + LengthOf(rollout) - shared <= options.longest;
    if (!joins) rows.emplace_back();
    AddCompletion(rollout, i, joins ? shared : 0, options.mask_truncated && rollout.truncated, rows.back());
    open = &rollout;
  }
  const Rows list = std::make_shared<RowList>(std::move(rows));
  return options.pack ? PackRows(list, options.longest) : list;
}

}  // namespace trireme
