#include "parallel/executor/stage.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/ones_like.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/autograd.h>

#include <optional>
#include <utility>

#include "core/base/error.h"
#include "ops/weight_gradients.h"

namespace trireme {

RunningStage::RunningStage(std::vector<StageLayer> layers, const StageOptions& options)
    : layers_(std::move(layers)), options_(options) {}

void RunningStage::SetBatches(PassBatch* batches) {
  TRIREME_CHECK(passed_.empty()) << "a stage still holds " << passed_.size() << " micro batches";
  batches_ = batches;
}

// Waits for the layer's parameters and starts to gather those of the next layer in the direction of work.
void RunningStage::Open(size_t layer, int direction) {
  for (Bucket* bucket : layers_[layer].uses) bucket->AwaitValues();
  const size_t next = layer + static_cast<size_t>(direction);  // wraps below the first: out of range as well
  if (next >= layers_.size() || (direction < 0 && !layers_[next].differentiated)) return;
  for (Bucket* bucket : layers_[next].uses) bucket->StartGather();
}

void RunningStage::Close(size_t layer) {
  for (Bucket* bucket : layers_[layer].uses) bucket->FreeValues();
}

at::Tensor RunningStage::Infer(PassContext& pass, const at::Tensor& x) {
  const c10::AutoGradMode no_graph(false);
  at::Tensor value = x.defined() ? x : at::empty({0}, pass.input.tokens.options().dtype(options_.type));
  for (size_t i = 0; i < layers_.size(); ++i) {
    Open(i, 1);
    value = layers_[i].layer->Forward(value, pass);
    Close(i);
  }
  return value;
}

at::Tensor RunningStage::Forward(int micro_batch, const at::Tensor& x) {
  PassContext& pass = batches_->at(micro_batch);
  if (!pass.options.differentiate) return Infer(pass, x);
  const at::Tensor first = x.defined() ? x : at::empty({0}, pass.input.tokens.options().dtype(options_.type));
  const at::Tensor value = PassAndSave(first, pass, passed_[micro_batch]);
  return layers_.back().layer->is_head() ? at::Tensor() : value;
}

at::Tensor RunningStage::PassAndSave(at::Tensor value, PassContext& pass, std::vector<Passed>& passed) {
  passed.resize(layers_.size());
  for (size_t i = 0; i < layers_.size(); ++i) {
    const StageLayer& layer = layers_[i];
    Open(i, 1);
    if (layer.layer->makes_gradients_forward()) {
      for (Bucket* bucket : layer.uses) bucket->PrepareGradients();
    }
    passed[i].input = value.detach().set_requires_grad(layer.differentiated);
    const bool again = Again(layer) && layer.differentiated;
    {
      const c10::AutoGradMode keep_graph(!again && layer.differentiated);
      const at::Tensor output = layer.layer->Forward(passed[i].input, pass);
      if (!again) passed[i].output = output;
      value = output.detach();
    }
    if (!layer.differentiated) passed[i] = {};
    if (again && options_.offload_inputs) passed[i].kept = room_.Keep(std::exchange(passed[i].input, {}).detach());
    Close(i);
  }
  return value;
}

at::Tensor RunningStage::InputOf(Passed& passed) {
  if (passed.kept) passed.input = room_.Bring(std::move(*std::exchange(passed.kept, {}))).set_requires_grad(true);
  return passed.input;
}

at::Tensor RunningStage::Backward(int micro_batch, const at::Tensor& gradient, const BackwardOptions& options) {
  PassContext& pass = batches_->at(micro_batch);
  std::vector<Passed>& passed = passed_.at(micro_batch);
  at::Tensor flowing = gradient;
  for (size_t i = layers_.size(); i-- > 0;) {
    const StageLayer& layer = layers_[i];
    if (!layer.differentiated) break;  // nor has any before it
    Open(i, -1);
    for (Bucket* bucket : layer.uses) bucket->PrepareGradients();
    if (!passed[i].output.defined()) passed[i].output = layer.layer->Forward(InputOf(passed[i]), pass);
    if (!flowing.defined()) flowing = at::ones_like(passed[i].output);
    {
      Overlap overlap;
      std::optional<Deferral> deferral;
      if (options.put_off_weights) deferral.emplace();
      flowing = torch::autograd::grad({std::exchange(passed[i].output, {})}, {passed[i].input}, {flowing},
                                      /*retain_graph=*/false, /*create_graph=*/false,
                                      /*allow_unused=*/true)[0];
      if (deferral) passed[i].put_off = deferral->Take();
      const c10::AutoGradMode no_graph(false);
      overlap.Finish();
    }
    passed[i].input = at::Tensor();
    Close(i);
    if (!options.put_off_weights && options.reduce) StartReduction(layer);
  }
  if (!options.put_off_weights) passed_.erase(micro_batch);
  reduced_ = options.reduce && !options.put_off_weights;
  return flowing;
}

void RunningStage::BackwardWeight(int micro_batch, bool reduce) {
  const c10::AutoGradMode no_graph(false);
  std::vector<Passed>& passed = passed_.at(micro_batch);
  for (size_t i = layers_.size(); i-- > 0;) {
    if (!layers_[i].differentiated) break;
    if (options_.weights_want_values) Open(i, -1);
    for (Bucket* bucket : layers_[i].uses) bucket->PrepareGradients();
    for (std::function<void()>& work : passed[i].put_off) {
      work();
      work = nullptr;  // frees the activations it holds
    }
    if (options_.weights_want_values) Close(i);
    if (reduce) StartReduction(layers_[i]);
  }
  passed_.erase(micro_batch);
  reduced_ = reduce;
}

void RunningStage::StartReduction(const StageLayer& layer) {
  for (Bucket* bucket : layer.owns) bucket->StartReduce();
  // Frees what earlier reductions still hold; this one overlaps with the next layer's backward pass.
  for (const StageLayer& other : layers_) {
    for (Bucket* bucket : other.owns) bucket->SettleReduction(/*latest=*/&other == &layer);
  }
}

void RunningStage::GatherParameters() {
  for (Bucket* bucket : layers_.front().uses) bucket->StartGather();
}

void RunningStage::FreeParameters() {
  for (size_t i = 0; i < layers_.size(); ++i) Close(i);
}

void RunningStage::ReduceGradients() {
  if (std::exchange(reduced_, false)) return;  // each layer started its own reduction
  for (const StageLayer& layer : layers_) StartReduction(layer);
}

at::Tensor RunningStage::EmptyInput(const PassInput& input) const {
  return at::empty({input.rows * input.length / options_.token_parts, options_.hidden},
                   input.tokens.options().dtype(options_.type));
}

}  // namespace trireme
