// The list, by topic. docs/from_other_systems.md holds the same list for readers; a test compares them.
#include "core/config/other_names.h"

#include <algorithm>
#include <iterator>
#include <string_view>

#include "core/base/error.h"

namespace trireme {
namespace {

struct OtherName {
  std::string_view theirs, ours, note;  // `ours` is empty if no key is needed
};

// clang-format off
constexpr OtherName kNames[] = {
    // the model and what is trained
    {"model_name_or_path", "model.path", "a directory; nothing is downloaded"},
    {"model_id_or_path", "model.path", "a directory; nothing is downloaded"},
    {"torch_dtype", "model.dtype", "bf16 or fp32"},
    {"bf16", "model.dtype", "bf16 or fp32"},
    {"fp16", "model.dtype", "bf16 or fp32"},
    {"model_type", "", "the family is read from the model's config.json"},
    {"finetuning_type", "tuning.kind", "full, freeze or lora"},
    {"tuner_type", "tuning.kind", "full, freeze or lora"},
    {"train_type", "tuning.kind", "full, freeze or lora"},
    {"sft_type", "tuning.kind", "full, freeze or lora"},
    {"lora_rank", "tuning.rank", ""},
    {"lora_r", "tuning.rank", ""},
    {"r", "tuning.rank", ""},
    {"lora_alpha", "tuning.alpha", ""},
    {"lora_dropout", "tuning.dropout", ""},
    {"lora_target", "tuning.targets", "all-linear, or module names"},
    {"target_modules", "tuning.targets", "all-linear, or module names"},
    {"lora_target_modules", "tuning.targets", "all-linear, or module names"},
    {"additional_target", "tuning.modules_to_save", ""},
    {"use_rslora", "tuning.rslora", ""},
    {"adapter_name_or_path", "tuning.adapters", ""},
    {"freeze_trainable_layers", "tuning.last_layers", "with tuning.kind: freeze"},
    {"freeze_trainable_modules", "tuning.targets", "with tuning.kind: freeze"},
    {"trainable_parameters", "tuning.targets", "with tuning.kind: freeze"},
    {"trust_remote_code", "", "code in a model's directory is never run"},
    // data
    {"dataset", "data.train", "files, directories or globs, not hub names"},
    {"train_data_path", "data.train", "files, directories or globs, not hub names"},
    {"data_path", "data.train", "files, directories or globs, not hub names"},
    {"val_dataset", "data.valid", ""},
    {"eval_dataset", "data.valid", ""},
    {"valid_data_path", "data.valid", ""},
    {"split_dataset_ratio", "data.valid_ratio", ""},
    {"val_size", "data.valid_ratio", ""},
    {"cutoff_len", "data.max_length", ""},
    {"max_seq_length", "data.max_length", ""},
    {"seq_length", "data.max_length", ""},
    {"truncation_strategy", "data.over_length", "delete is drop, right is truncate, split is split"},
    {"neat_packing", "data.packing", "packed samples never attend to each other"},
    {"padding_free", "data.packing", "packed samples never attend to each other"},
    {"reset_attention_mask", "data.packing", "packed samples never attend to each other"},
    {"dataset_shuffle", "data.shuffle", ""},
    {"disable_shuffling", "data.shuffle", ""},
    {"default_system", "data.system", ""},
    {"chat_template", "data.template", "a file; by default the tokenizer's own template"},
    {"mask_history", "data.loss", "write last_round"},
    {"train_on_prompt", "data.loss", "write all"},
    {"train_on_inputs", "data.loss", "write all"},
    {"loss_scale", "data.loss", "answers, last_round or all; weights are the messages' own \"loss\""},
    {"interleave_probs", "data.train", "a weight for each entry: NAME@0.3"},
    {"mix_strategy", "data.train", "a weight for each entry: NAME@0.3"},
    {"interleave_strategy", "data.train", "a weight for each entry: NAME@0.3"},
    {"max_samples", "data.train", "a number of samples for an entry: NAME#500"},
    {"tokenized_path", "data.cache", ""},
    {"cached_dataset", "data.cache", ""},
    {"data_cache_path", "data.cache", ""},
    {"strict", "data.on_error", "stop or skip"},
    {"preprocessing_num_workers", "", "data is tokenized once, on all cores, and rows are prefetched"},
    {"dataset_num_proc", "", "data is tokenized once, on all cores, and rows are prefetched"},
    {"dataloader_num_workers", "", "data is tokenized once, on all cores, and rows are prefetched"},
    {"num_workers", "", "data is tokenized once, on all cores, and rows are prefetched"},
    {"streaming", "", "files of any size are tokenized once and memory-mapped from data.cache"},
    // the layout
    {"tensor_model_parallel_size", "parallel.tensor", ""},
    {"pipeline_model_parallel_size", "parallel.pipeline", ""},
    {"context_parallel_size", "parallel.context", ""},
    {"sequence_parallel_size", "parallel.context", ""},
    {"sequence_parallel", "parallel.sequence", "on by default"},
    {"expert_model_parallel_size", "parallel.expert", ""},
    {"expert_tensor_parallel_size", "parallel.expert_tensor", ""},
    {"deepspeed", "parallel.zero", "0, 1, 2 or 3; 1 by default"},
    {"zero_stage", "parallel.zero", "0, 1, 2 or 3; 1 by default"},
    {"use_distributed_optimizer", "parallel.zero", "0, 1, 2 or 3; 1 by default"},
    {"data_parallel_sharding_strategy", "parallel.zero", "0, 1, 2 or 3; 1 by default"},
    {"fsdp", "parallel.zero", "0, 1, 2 or 3; 1 by default"},
    {"num_layers_per_virtual_pipeline_stage", "parallel.virtual_stages", "model chunks per pipeline rank; with parallel.schedule: interleaved"},
    {"num_virtual_stages_per_pipeline_rank", "parallel.virtual_stages", "model chunks per pipeline rank; with parallel.schedule: interleaved"},
    {"decoder_first_pipeline_num_layers", "parallel.stage_layers", "the decoder layers of each stage"},
    {"decoder_last_pipeline_num_layers", "parallel.stage_layers", "the decoder layers of each stage"},
    {"pipeline_model_parallel_layout", "parallel.stage_layers", "the decoder layers of each stage"},
    {"num_layer_list", "parallel.stage_layers", "the decoder layers of each stage"},
    {"schedules_method", "parallel.schedule", "1f1b, interleaved, zero_bubble or dualpipev"},
    {"cp_comm_type", "parallel.context_method", "p2p is ring, a2a is ulysses, a2a+p2p is hybrid"},
    {"context_parallel_algo", "parallel.context_method", "p2p is ring, a2a is ulysses, a2a+p2p is hybrid"},
    {"hierarchical_context_parallel_sizes", "parallel.ulysses", "with parallel.context_method: hybrid"},
    {"ulysses_degree_in_cp", "parallel.ulysses", "with parallel.context_method: hybrid"},
    // memory
    {"gradient_checkpointing", "memory.recompute", "none, selective or full"},
    {"disable_gradient_checkpointing", "memory.recompute", "none, selective or full"},
    {"recompute_granularity", "memory.recompute", "none, selective or full"},
    {"recompute_method", "memory.recompute", "none, selective or full"},
    {"optimizer_cpu_offload", "memory.offload_optimizer", ""},
    {"swap_optimizer", "memory.offload_optimizer", ""},
    // the optimizer
    {"learning_rate", "optimizer.lr", ""},
    {"lr_scheduler_type", "optimizer.schedule", "cosine, linear or constant"},
    {"lr_decay_style", "optimizer.schedule", "cosine, linear or constant"},
    {"warmup_ratio", "optimizer.warmup", "a fraction of all steps"},
    {"lr_warmup_fraction", "optimizer.warmup", "a fraction of all steps"},
    {"warmup_steps", "optimizer.warmup", "a fraction of all steps"},
    {"lr_warmup_iters", "optimizer.warmup", "a fraction of all steps"},
    {"adam_beta1", "optimizer.beta1", ""},
    {"adam_beta2", "optimizer.beta2", ""},
    {"adam_epsilon", "optimizer.eps", ""},
    {"adam_eps", "optimizer.eps", ""},
    {"max_grad_norm", "optimizer.clip", ""},
    {"clip_grad", "optimizer.clip", ""},
    {"optim", "", "AdamW is the only optimizer"},
    // preferences
    {"rlhf_type", "stage", "dpo, kto, orpo, simpo, cpo or rm"},
    {"center_rewards_coefficient", "preference.center_rewards", ""},
    {"pref_beta", "preference.beta", ""},
    {"loss_type", "preference.loss", "a list, with preference.weights"},
    {"pref_loss", "preference.loss", "a list, with preference.weights"},
    {"loss_weights", "preference.weights", ""},
    {"dpo_label_smoothing", "preference.label_smoothing", ""},
    {"f_divergence_type", "preference.divergence", ""},
    {"f_alpha_divergence_coef", "preference.divergence_alpha", ""},
    {"rpo_alpha", "preference.sft_weight", "the chosen answers' mean loss per token"},
    {"pref_ftx", "preference.sft_weight", "the chosen answers' mean loss per token"},
    {"ref_model", "reference", "base, start, none or a directory"},
    {"kto_chosen_weight", "preference.desirable_weight", ""},
    {"kto_rejected_weight", "preference.undesirable_weight", ""},
    // the run
    {"output_dir", "run.output", ""},
    {"save", "run.output", ""},
    {"num_train_epochs", "run.epochs", ""},
    {"max_epochs", "run.epochs", ""},
    {"num_epochs", "run.epochs", ""},
    {"max_steps", "run.steps", ""},
    {"train_iters", "run.steps", ""},
    {"per_device_train_batch_size", "run.micro_batch", ""},
    {"micro_batch_size", "run.micro_batch", ""},
    {"global_batch_size", "run.global_batch", ""},
    {"gradient_accumulation_steps", "run.global_batch", "sequences per step over all ranks; the number of micro batches follows from it"},
    {"per_device_eval_batch_size", "run.micro_batch", "evaluation uses it, too"},
    {"logging_steps", "run.log_every", ""},
    {"log_interval", "run.log_every", ""},
    {"save_steps", "run.save_every", "in steps"},
    {"save_interval", "run.save_every", "in steps"},
    {"save_strategy", "run.save_every", "in steps"},
    {"eval_steps", "run.eval_every", "in steps"},
    {"eval_interval", "run.eval_every", "in steps"},
    {"eval_strategy", "run.eval_every", "in steps"},
    {"evaluation_strategy", "run.eval_every", "in steps"},
    {"save_total_limit", "run.keep", ""},
    {"resume_from_checkpoint", "run.resume", "auto, never or a checkpoint-N"},
    {"load", "run.resume", "auto, never or a checkpoint-N"},
    {"data_seed", "run.seed", "one seed controls everything"},
    {"deterministic_mode", "run.deterministic", ""},
    {"full_determinism", "run.deterministic", ""},
    {"ddp_timeout", "comm.exec_timeout_seconds", "in seconds"},
    {"distributed_timeout_minutes", "comm.exec_timeout_seconds", "in seconds"},
    {"overwrite_output_dir", "", "nothing is ever overwritten; name another run.output"},
    {"report_to", "", "log.jsonl and TensorBoard's events are always written into run.output"},
    {"logging_dir", "", "log.jsonl and TensorBoard's events are always written into run.output"},
    {"tensorboard_dir", "", "log.jsonl and TensorBoard's events are always written into run.output"},
    {"plot_loss", "", "loss.svg is always drawn into run.output"},
    {"do_train", "", "choose the command: trireme train or trireme evaluate"},
    {"do_eval", "", "choose the command: trireme train or trireme evaluate"},
    {"ddp_backend", "", "ranks communicate over HCCL"},
    {"distributed_backend", "", "ranks communicate over HCCL"},
    // experts and multi-token prediction
    {"moe_aux_loss_coeff", "experts.balance_coefficient", ""},
    {"router_aux_loss_coef", "experts.balance_coefficient", ""},
    {"moe_router_load_balancing_type", "experts.balance", "seq_aux_loss is sequence, aux_loss is batch, global_aux_loss is global"},
    {"moe_z_loss_coeff", "experts.z_coefficient", ""},
    {"moe_router_bias_update_rate", "experts.bias_speed", ""},
    {"moe_expert_capacity_factor", "experts.capacity", "with experts.overflow: drop or pad"},
    {"moe_pad_expert_input_to_capacity", "experts.overflow", "keep, drop or pad"},
    {"moe_token_drop_policy", "experts.overflow", "keep, drop or pad"},
    {"moe_token_dispatcher_type", "experts.dispatch", "alltoall is all_to_all, allgather is all_gather"},
    {"mtp_num_layers", "multi_token_prediction.depths", ""},
    {"mtp_loss_scaling_factor", "multi_token_prediction.loss_weight", ""},
    // operators
    {"flash_attn", "", "fused operators are used where available; trireme check --ops shows which, ops.off turns them off"},
    {"attn_impl", "", "fused operators are used where available; trireme check --ops shows which, ops.off turns them off"},
    {"use_flash_attn", "", "fused operators are used where available; trireme check --ops shows which, ops.off turns them off"},
};
// clang-format on

}  // namespace

std::optional<std::string> OtherNameHint(const std::string& name) {
  std::string theirs = name;
  std::replace(theirs.begin(), theirs.end(), '-', '_');
  const auto found = std::find_if(std::begin(kNames), std::end(kNames),
                                  [&](const OtherName& one) { return one.theirs == theirs; });
  if (found == std::end(kNames)) return std::nullopt;
  if (found->ours.empty()) return Concat("leave it out: ", found->note);
  return Concat("in Trireme it is ", found->ours, found->note.empty() ? "" : ": ", found->note);
}

}  // namespace trireme
