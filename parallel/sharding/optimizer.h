// ShardedOptimizer: from the gradients of the buckets to their new values. Sums what tensor-parallel ranks
// and tied copies have parts of, measures and clips, and runs an update rule on this rank's shard in fp32. Which rate,
// and what happens to a step that is not finite, is the training loop's business.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/comm/job.h"
#include "parallel/sharding/bucket.h"
#include "parallel/sharding/gradient_norm.h"
#include "parallel/sharding/lr_factors.h"
#include "parallel/sharding/tensor_sums.h"
#include "parallel/sharding/update_rule.h"
#include "parallel/sharding/whole_tensors.h"

namespace trireme {

struct GradientReport {
  double norm = 0;     // of all gradients of the model, with those kept of earlier passes, before clipping
  bool finite = true;  // those of the last pass
  // If not finite: "rank 3: layers.2.mlp.down.weight (nan)", the same on every rank. Names the rank whose
  // shard has the value; which rank's tokens caused it is lost in the reduction.
  std::string source;
};

struct OptimizerGroups {
  Communicator& tensor;
  Communicator& world;
  // The two stages that hold the tied embedding, the first stage's rank first; nullptr elsewhere.
  Communicator* embedding = nullptr;
  // If each expert's matrices are split over `expert_tensor` ranks: those ranks and those of other experts.
  Communicator* experts = nullptr;
  int expert_tensor = 1;
  Communicator* stage = nullptr;  // all ranks of the pipeline stage; for muon, adafactor and 8-bit moments
};

struct OptimizerOptions {
  std::string name = "adamw";  // of the list in optimizer_names.h
  double beta1 = 0.9;
  double beta2 = 0.95;
  double eps = 1e-8;
  double weight_decay = 0.1;     // not for one-dimensional parameters: norms and biases
  double clip = 1;               // 0: never
  double momentum = 0;           // of sgd_momentum and muon
  double loraplus_lr_ratio = 1;  // LoRA+: of B and of one-dimensional parameters
  LrFactors lr_factors = {};
  double ema = 0;             // decay rate of the average of the weights; 0: there is none
  bool keep_initial = false;  // the weights before the first update are a state, too
  bool offload = false;       // masters and moments on the host, whatever the device
  bool in_backward = false;   // a bucket is updated when its gradient is complete: one process, one micro batch
  at::ScalarType moments = at::kFloat;  // kByte: 8 bits with a scale per block
  AdafactorOptions adafactor = {};
  at::Device device = at::kCPU;  // of the buckets
};

// What may differ from one update to the next.
struct StepNumbers {
  double learning_rate = 0;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double eps = 1e-8;
  double weight_decay = 0.1;
  double clip = 1;         // 0: never
  bool decay_all = false;  // norms and biases, too
};

// A state of one bucket on this rank.
struct ShardState {
  Bucket* bucket;
  std::string state;  // "master", or one of OptimizerStates
  at::Tensor shard;   // [shard]
  bool is_copy;       // of a tied embedding: another stage's is the one that counts
};

// A state of a whole tensor, the same on all ranks of its stage.
struct TensorState {
  std::string key;    // "exp_avg_sq_row/NAME"
  at::Tensor values;  // fp32
  bool saved;         // by this rank
};

class ShardedOptimizer {
 public:
  // Buckets in the order of the forward pass; those that are not trained are skipped. The bucket of layer
  // "embedding" is the tied one. All arguments outlive the optimizer.
  ShardedOptimizer(std::vector<Bucket*> buckets, OptimizerGroups groups, Job& job, OptimizerOptions options);

  // With options.in_backward, before a pass: its buckets are updated in it, at this rate, and their gradients freed.
  // Otherwise nothing.
  void BeginStep(double learning_rate);
  // Collective over the world, once per step: waits for all reductions, sums partial gradients, computes the
  // norm.
  GradientReport FinishGradients();
  // Clips and steps; writes the values, starts to gather them in order; zeroes the gradients. Only after a
  // finite report. What was updated in the pass stays so. With a rate alone the other numbers are the options'.
  void Update(double learning_rate);
  void Update(const StepNumbers& numbers);
  // Only zeroes the gradients.
  void SkipUpdate();
  // For updates with the gradients of several passes. Before the next pass, after a finite report: those so far wait
  // until its FinishGradients adds them, if its own are finite.
  void KeepGradients();
  // In place of an update: the last pass leaves nothing behind; if there were kept gradients before it, they and their
  // report are there again.
  void DropPass();
  bool has_gradients() const { return finished_; }          // that an update could use
  const GradientReport& report() const { return report_; }  // theirs
  int64_t step() const { return step_; }                    // updates so far
  // Between steps: gradients free their memory for something else; with `states` masters and moments wait in host
  // memory until TakeMemoryBack, before which nothing else may be called.
  void LendMemory(bool states);
  void TakeMemoryBack();

  void MakeStates();  // if there are none yet
  // Every state of every trained bucket, one after another: a split master exists in fp32 only in the call. With
  // `changes` what is written there counts, and StatesLoaded must be called afterwards.
  void ForEachShard(const std::function<void(const ShardState&)>& visit, bool changes = false);
  // The same for states that belong to whole tensors.
  void ForEachTensorState(const std::function<void(const TensorState&)>& visit);
  bool IsTiedCopy(const Bucket& bucket) const;  // the last stage's
  // Of every trained parameter what this rank's shard holds: "master/NAME" and "STATE/NAME" of each
  // optimizer state, in host memory: where the states are a device's, in copies that live until
  // ForgetCopies or the next call. Whoever writes into them calls StatesLoaded afterwards.
  std::vector<Shard> States();
  void StatesLoaded(int64_t step);
  // "gradient/NAME", in host memory like States(), between FinishGradients and the next step.
  std::vector<Shard> Gradients();
  void ForgetCopies() { host_copies_.clear(); }

 private:
  struct UpdateRun {  // part of a shard
    FlatRange elements;
    bool decayed = false;
    double lr_factor = 1;
    bool muon = false;  // updated by its matrices' orthogonalised momentum

    bool Like(const UpdateRun& other) const {
      return decayed == other.decayed && lr_factor == other.lr_factor && muon == other.muon;
    }
  };
  struct Trained {
    Bucket* bucket;
    std::vector<UpdateRun> runs;
    std::vector<at::Tensor> states;         // by state_names_, [shard] each; empty before the first update
    std::vector<WholeTensor> tensors = {};  // of optimizers that update whole ones; likewise
  };

  static std::vector<Bucket*> TrainedOnly(const std::vector<Bucket*>& buckets);
  std::vector<UpdateRun> UpdateRuns(const Bucket& bucket) const;
  UpdateRun RunOf(const Bucket& bucket, const FlatPart& part) const;
  UpdateRun RunOf(const Parameter& parameter, const std::string& layer) const;  // without its elements
  void MoveStates(at::Device device);
  bool moments_8bit() const { return options_.moments == at::kByte; }
  void MakeTensorStates(Trained& trained) const;
  std::vector<Bucket*> Counted(const std::vector<Bucket*>& buckets) const;
  bool IsTied(const Bucket& bucket) const;
  StepNumbers NumbersAt(double learning_rate) const;     // the options' others
  UpdateNumbers NumbersOf(double gradient_scale) const;  // of the next update
  void Step(Trained& trained, const UpdateNumbers& numbers);
  UpdateNumbers NumbersOf(const UpdateRun& run, UpdateNumbers numbers) const;
  void StepTensors(const Trained& trained, const UpdateTensors& shard, const UpdateNumbers& numbers);
  void StepMuon(const Trained& trained, const UpdateTensors& shard, const UpdateNumbers& numbers);
  void Average(const UpdateTensors& shard, const UpdateNumbers& numbers) const;
  void UpdateInPass(Trained& trained);
  at::Tensor SquaresOfPass();
  void CompleteGradients();
  void AddKept();
  void ClearGradients();
  std::string FindSource();
  void AppendShards(Bucket& bucket, const std::string& state, const at::Tensor& shard, std::vector<Shard>& shards);
  void* OnHost(const at::Tensor& shard, Bucket* split);

  OptimizerGroups groups_;
  Job& job_;
  OptimizerOptions options_;
  const std::vector<std::string> state_names_;
  const UpdateRule update_;
  std::vector<Trained> trained_;
  TensorSums tensor_sums_, expert_sums_;
  GradientNorm norm_;
  GradientReport report_, kept_report_;
  std::vector<at::Tensor> kept_;  // gradients of earlier passes, by trained_; empty: none
  StepNumbers numbers_;           // of the update that runs
  struct HostCopy {
    at::Tensor of, copy;
    Bucket* split = nullptr;  // whose master it is
  };
  std::vector<HostCopy> host_copies_;
  std::vector<at::Tensor> squares_;  // of the buckets that this pass has updated, in order
  std::vector<const Bucket*> updated_;
  bool finished_ = false;  // FinishGradients ran since the last step
  bool lent_ = false;      // the memory of the states
  int64_t step_ = 0;
};

}  // namespace trireme
