// PreferencePass: a step of preference training up to its gradients: counts the batch, asks the reference, and where an
// objective wants it the policy itself, about the whole batch, then lets the trainer differentiate. Nothing in the loss
// depends on how pairs were cut into micro batches, ranks or packs.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "data/rows.h"
#include "train/methods/preference/kl_table.h"
#include "train/methods/preference/reference_table.h"
#include "train/report/logged_step.h"
#include "train/step/reference.h"
#include "train/step/trainer.h"

namespace trireme {

class PreferencePass {
 public:
  // `trainer` outlives it; its objective is the stage's. Opens the reference. Collective.
  // `checkpoint`: that the run resumes from.
  explicit PreferencePass(Trainer& trainer, const std::optional<std::filesystem::path>& checkpoint = {});

  // What answers are compared with; null: nothing is, or not yet (Precompute).
  Reference* reference() { return reference_.get(); }
  // With preference.precompute_ref_log_probs: what the reference says of all these rows, which Pass and Evaluate are
  // then given rows of, steps 1 to `steps` in this order; after that there is no reference. Once, after the initial
  // weights. Collective.
  void Precompute(const RowSource& train, const BatchSamplerOptions& order, int64_t steps, const RowSource* valid);
  // Forward and backward over units of a global batch (data/answer_rows.h), that of a step; the loss. Collective.
  double Pass(const RowSource& rows, std::span<const int64_t> chosen, int64_t step);
  // What the objective keeps from step to step: after the last pass, or as the checkpoint has it that a run resumes
  // from.
  const std::vector<double>& state() const { return state_; }
  void Restore(std::vector<double> state) { state_ = std::move(state); }
  // Of the last pass, by TRL's names.
  const MetricValues& metrics() const { return metrics_; }
  // Forward over all rows, as many at a time as a global batch has; means over the samples. Collective.
  Evaluation Evaluate(const RowSource& rows);

 private:
  struct Prepared {
    std::vector<PassInput> inputs;
    BatchTotals totals;
  };
  // What takes the reference's place; nullptr: nothing does.
  struct Tables {
    std::unique_ptr<ReferenceTable> answers;
    std::unique_ptr<KlTable> kl;  // where the loss estimates it
  };
  Tables TablesOf(const RowSource& rows, const BatchSamplerOptions& order, int64_t steps);
  // `step`: of those that Precompute was told of, from 1. trains: the batch moves the objective's state.
  Prepared Prepare(const RowSource& rows, std::span<const int64_t> chosen, const Tables& tables, int64_t step,
                   bool trains);
  void Count(Prepared& batch);
  void SetRivals(std::vector<PassInput>& inputs, int64_t pairs);
  // How much likelier than to the reference answers are to the policy, on average over the batch's samples. Collective.
  double MeanLogRatio(const std::vector<PassInput>& inputs, int64_t samples);
  double EstimateKl(const RowSource& rows, std::span<const int64_t> chosen, int64_t samples, const KlTable* table,
                    int64_t step);
  MetricValues MetricsOf(const NamedSums& sums, const BatchTotals& totals) const;
  // The trainer's, with what the stage's metrics want of the pass.
  PassOptions OptionsOf(const BatchTotals& totals) const;
  // Of a reward model: the lowest and the highest score of the batch. Collective; nothing for other stages.
  void AddExtremes(const PassResult& result, MetricValues& metrics) const;

  Trainer& trainer_;
  Session& session_;
  std::unique_ptr<Reference> reference_;
  Tables train_tables_, valid_tables_;
  std::vector<double> state_;  // of the objective; empty: it keeps none
  MetricValues metrics_;
};

}  // namespace trireme
