// The list, by topic. docs/from_other_systems.md holds what most runs use of it for readers; a test compares them.
#include "core/config/other_names.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "core/base/error.h"
#include "core/config/schema.h"

namespace trireme {
namespace {

// clang-format off
constexpr OtherName kNames[] = {
    // the model and what is trained
    {"model_name_or_path", "model.path", "a directory, or a hub's name, which is downloaded if no local cache has it"},
    {"model_id_or_path", "model.path", "a directory, or a hub's name, which is downloaded if no local cache has it"},
    {"add_tokens", "model.new_tokens", ""},
    {"add_special_tokens", "model.new_special_tokens", ""},
    {"resize_vocab", "", "the vocabulary grows where model.new_tokens need it"},
    {"pad_to_multiple_of", "model.vocabulary_multiple", ""},
    {"rope_scaling", "model.rope.kind", "linear, dynamic, yarn or llama3, with model.rope.factor"},
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
    {"exclude_modules", "tuning.exclude", ""},
    {"target_regex", "tuning.targets", "re:PATTERN"},
    {"neftune_noise_alpha", "tuning.neftune_alpha", ""},
    {"loraplus_lr_ratio", "tuning.loraplus_lr_ratio", ""},
    {"lorap_lr_ratio", "tuning.loraplus_lr_ratio", ""},
    {"use_dora", "tuning.dora", ""},
    {"init_weights", "tuning.init", "lora, pissa or olora"},
    {"init_lora_weights", "tuning.init", "lora, pissa or olora"},
    {"pissa_init", "tuning.init", "pissa"},
    {"pissa_iter", "tuning.pissa_niter", "0 for the exact decomposition"},
    {"pissa_convert", "", "final/ of such a run is plain LoRA always"},
    {"adapter_name_or_path", "tuning.adapters", ""},
    {"freeze_trainable_layers", "tuning.last_layers", "with tuning.kind: freeze"},
    {"freeze_trainable_modules", "tuning.targets", "with tuning.kind: freeze"},
    {"trainable_parameters", "tuning.targets", "with tuning.kind: freeze"},
    {"quantization_bit", "model.quantise", "4 is nf4 or fp4, 8 is int8"},
    {"quant_bits", "model.quantise", "4 is nf4 or fp4, 8 is int8"},
    {"load_in_4bit", "model.quantise", "nf4 or fp4"},
    {"load_in_8bit", "model.quantise", "int8"},
    {"bnb_4bit_quant_type", "model.quantise", "nf4 or fp4"},
    {"bnb_4bit_use_double_quant", "model.quantise_nested", ""},
    {"double_quantization", "model.quantise_nested", ""},
    {"trust_remote_code", "", "code in a model's directory is never run"},
    // data
    {"dataset", "data.train", "files, directories, globs, hub names, or entries of data.dataset_info"},
    {"train_data_path", "data.train", "files, directories, globs, hub names, or entries of data.dataset_info"},
    {"data_path", "data.train", "files, directories, globs, hub names, or entries of data.dataset_info"},
    {"dataset_dir", "data.dataset_info", "the directory with dataset_info.json"},
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
    {"loss_scale", "data.loss", "answers, last_round or all; see data.loss_weights and data.skip_empty_think, too"},
    {"model_name model_author", "data.replace", "{{NAME}}=TEXT, {{AUTHOR}}=TEXT"},
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
    {"buffer_size", "data.shuffle_buffer", "with data.streaming"},
    {"shuffle_buffer_size", "data.shuffle_buffer", "with data.streaming"},
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
    {"num_distributed_optimizer_instances", "parallel.replicas", ""},
    {"data_parallel_replicate_degree", "parallel.replicas", ""},
    {"hierarchical_context_parallel_sizes", "parallel.ulysses", "with parallel.context_method: hybrid"},
    {"ulysses_degree_in_cp", "parallel.ulysses", "with parallel.context_method: hybrid"},
    // memory
    {"gradient_checkpointing", "memory.recompute", "none, selective or full"},
    {"disable_gradient_checkpointing", "memory.recompute", "none, selective or full"},
    {"recompute_granularity", "memory.recompute", "none, selective or full"},
    {"recompute_method", "memory.recompute", "none, selective or full"},
    {"optimizer_cpu_offload", "memory.offload_optimizer", ""},
    {"swap_optimizer", "memory.offload_optimizer", ""},
    {"cpu_offloading", "memory.offload_activations", "with memory.recompute: full"},
    {"offload_param", "memory.offload_parameters", "with parallel.zero: 3"},
    {"swap_attention", "memory.offload_activations", "with memory.recompute: full"},
    // the optimizer
    {"learning_rate", "optimizer.lr", ""},
    {"lr_scheduler_type", "optimizer.schedule",
     "cosine, linear, constant, wsd, cosine_with_restarts, inverse_sqrt or polynomial"},
    {"lr_decay_style", "optimizer.schedule",
     "cosine, linear, constant, wsd, cosine_with_restarts, inverse_sqrt or polynomial"},
    {"warmup_ratio", "optimizer.warmup", "a fraction of all steps"},
    {"lr_warmup_fraction", "optimizer.warmup", "a fraction of all steps"},
    {"warmup_steps", "optimizer.warmup_steps", ""},
    {"lr_warmup_iters", "optimizer.warmup_steps", ""},
    {"lr_wsd_decay_style", "optimizer.decay_shape", "cosine, linear or 1-sqrt"},
    {"lr_wsd_decay_iters", "optimizer.decay", "a fraction of all steps"},
    {"adam_beta1", "optimizer.beta1", ""},
    {"adam_beta2", "optimizer.beta2", ""},
    {"adam_epsilon", "optimizer.eps", ""},
    {"adam_eps", "optimizer.eps", ""},
    {"max_grad_norm", "optimizer.clip", ""},
    {"clip_grad", "optimizer.clip", ""},
    {"optim", "optimizer.name", "adamw, muon, adafactor, sgd or sgd_momentum; for adamw_8bit optimizer.moments: 8bit"},
    {"label_smoothing_factor", "loss.label_smoothing", ""},
    {"enable_dft_loss use_dft_loss", "loss.kind", "dft"},
    {"eval_iters", "eval.batches", ""},
    // preferences
    {"rlhf_type", "stage", "dpo, kto, orpo, simpo, cpo, rm, grpo, ppo or gkd"},
    {"center_rewards_coefficient", "preference.center_rewards", ""},
    {"pref_beta", "preference.beta", ""},
    {"loss_type", "preference.loss", "a list, with preference.weights"},
    {"loss_type", "rl.loss", "in stages grpo, rloo, reinforce_plus_plus and ppo"},
    {"pref_loss", "preference.loss", "a list, with preference.weights"},
    {"loss_weights", "preference.weights", "data.loss_weights weighs parts of answers"},
    {"dpo_label_smoothing", "preference.label_smoothing", ""},
    {"f_divergence_type", "preference.divergence", ""},
    {"f_alpha_divergence_coef", "preference.divergence_alpha", ""},
    {"rpo_alpha", "preference.sft_weight", "the chosen answers' mean loss per token"},
    {"pref_ftx", "preference.sft_weight", "the chosen answers' mean loss per token"},
    {"ref_model", "reference", "base, start, none or a directory"},
    {"sync_ref_model", "reference_sync.steps", "TRL's 512 is not the default"},
    {"ref_model_sync_steps", "reference_sync.steps", ""},
    {"ref_model_mixup_alpha", "reference_sync.alpha", ""},
    {"kto_chosen_weight", "preference.desirable_weight", ""},
    {"kto_rejected_weight", "preference.undesirable_weight", ""},
    // reinforcement learning and distillation
    {"num_generations", "rl.group", ""},
    {"num_iterations", "rl.iterations", ""},
    {"max_completion_length", "rl.max_new_tokens", ""},
    {"max_prompt_length", "data.max_length", "of prompt and completion together; rl.max_new_tokens of it are the completion's"},
    {"use_vllm", "", "the program samples by itself, in the same process and layout; rl.rollouts reads another sampler's completions"},
    {"vllm_mode", "", "the program samples by itself, in the same process and layout; rl.rollouts reads another sampler's completions"},
    {"vllm_gpu_memory_utilization", "", "the program samples by itself, in the same process and layout; rl.rollouts reads another sampler's completions"},
    {"vllm_tensor_parallel_size", "", "the program samples by itself, in the same process and layout; rl.rollouts reads another sampler's completions"},
    {"importance_sampling_level", "rl.level", "token or sequence"},
    {"reward_funcs", "rl.rewards", "names, python:FILE.py:FUNCTION, program:COMMAND, http://HOST:PORT/PATH or model:DIR"},
    {"reward_model", "rl.rewards", "model:DIR"},
    {"dynamic_sample", "rl.max_resample_times", "how often; 3 in ms-swift"},
    {"overlong_filter", "rl.mask_truncated", ""},
    {"mask_truncated_completions", "rl.mask_truncated", ""},
    {"multi_turn_scheduler", "rl.environment", "program:COMMAND"},
    {"num_ppo_epochs", "rl.iterations", "with stage: ppo"},
    {"ppo_epochs", "rl.iterations", "with stage: ppo"},
    {"num_mini_batches", "rl.steps_per_generation", ""},
    {"kl_coef", "rl.beta", ""},
    {"cliprange", "rl.epsilon", "and rl.epsilon_high"},
    {"response_length", "rl.max_new_tokens", ""},
    {"ppo_target", "rl.kl_target", ""},
    {"ppo_whiten_rewards", "rl.whiten_rewards", ""},
    {"teacher_model", "distillation.teacher", "a directory"},
    // verl's sections and the keys in them
    {"actor_rollout_ref", "rl", "model.path, optimizer.lr of optim, rl.group of rollout.n, rl.epsilon of clip_ratio"},
    {"algorithm", "rl", "adv_estimator is stage: grpo, rloo, reinforce_plus_plus or ppo; kl_coef is rl.beta"},
    {"critic", "rl.value_model", "with stage: ppo"},
    {"trainer", "run", "total_epochs is run.epochs, save_freq save.every, test_freq eval.every, default_local_dir run.output"},
    {"custom_reward_function", "rl.rewards", "python:FILE.py:FUNCTION"},
    {"adv_estimator", "stage", "grpo, rloo, reinforce_plus_plus or ppo"},
    {"train_files", "data.train", ""},
    {"val_files", "data.valid", ""},
    {"train_batch_size", "run.global_batch", "completions: prompts times rl.group"},
    {"ppo_mini_batch_size", "rl.steps_per_generation", "train_batch_size over ppo_mini_batch_size"},
    {"max_response_length", "rl.max_new_tokens", ""},
    {"clip_ratio", "rl.epsilon", "and rl.epsilon_high"},
    {"kl_loss_coef", "rl.beta", ""},
    {"total_epochs", "run.epochs", ""},
    {"save_freq", "save.every", "in steps"},
    {"test_freq", "eval.every", "in steps"},
    {"val_before_train", "eval.at_start", ""},
    {"val_kwargs", "eval", "n is completions; temperature, top_p and top_k have the same names"},
    {"default_local_dir", "run.output", ""},
    {"lmbda", "distillation.lambda", ""},
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
    {"rampup_batch_size", "run.batch_ramp", "[START, INCREMENT, SAMPLES]"},
    {"gradient_accumulation_steps", "run.global_batch", "sequences per step over all ranks; the number of micro batches follows from it"},
    {"per_device_eval_batch_size", "run.micro_batch", "evaluation uses it, too"},
    {"logging_steps", "log.every", ""},
    {"log_interval", "log.every", ""},
    {"save_steps", "save.every", "in steps"},
    {"save_interval", "save.every", "in steps"},
    {"save_strategy", "save.every", "in steps; or save.every_epoch: true"},
    {"eval_steps", "eval.every", "in steps"},
    {"eval_interval", "eval.every", "in steps"},
    {"eval_strategy", "eval.every", "in steps; or eval.every_epoch: true"},
    {"evaluation_strategy", "eval.every", "in steps; or eval.every_epoch: true"},
    {"predict_with_generate", "eval.generate", "true; predictions-STEP.jsonl has the answers"},
    {"generation_max_length", "eval.max_new_tokens", "without the prompt"},
    {"early_stopping_patience", "eval.early_stopping", "in evaluations"},
    {"early_stopping_steps", "eval.early_stopping", "in evaluations"},
    {"early_stop_interval", "eval.early_stopping", "in evaluations"},
    {"load_best_model_at_end", "save.final_from", "best"},
    {"save_total_limit", "save.keep", ""},
    {"resume_from_checkpoint", "run.resume", "auto, never or a checkpoint-N"},
    {"load", "run.resume", "auto, never or a checkpoint-N"},
    {"data_seed", "run.seed", "one seed controls everything"},
    {"deterministic_mode", "run.deterministic", ""},
    {"full_determinism", "run.deterministic", ""},
    {"ddp_timeout", "comm.exec_timeout_seconds", "in seconds"},
    {"distributed_timeout_minutes", "comm.exec_timeout_seconds", "in seconds"},
    {"overwrite_output_dir", "", "nothing is ever overwritten; name another run.output"},
    {"report_to", "log.report_to",
     "wandb, swanlab, mlflow or trackio; log.jsonl and TensorBoard's events are always written into run.output"},
    {"run_name", "log.name", ""},
    {"wandb_project", "log.project", "with log.report_to: [wandb]"},
    {"wandb_exp_name", "log.name", "with log.report_to: [wandb]"},
    {"use_swanlab", "log.report_to", "[swanlab]"},
    {"swanlab_project", "log.project", "with log.report_to: [swanlab]"},
    {"swanlab_run_name", "log.name", "with log.report_to: [swanlab]"},
    {"swanlab_exp_name", "log.name", "with log.report_to: [swanlab]"},
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
    // how data and gradients are moved, which is the program's own business
    {"load_from_cache_file overwrite_cache", "", "the cache of tokenized data knows what it was made from"},
    {"dataloader_pin_memory dataloader_persistent_workers dataloader_prefetch_factor lazy_tokenize write_batch_size data_sharding "
     "group_by_length dataloader_type", "", "rows are prefetched; data.balance shares them out"},
    {"dataloader_drop_last", "", "an epoch's last batch is filled up from its beginning"},
    {"ddp_find_unused_parameters ddp_bucket_cap_mb overlap_grad_reduce overlap_param_gather tp_comm_overlap use_ascend_coc coc_fused_kernel "
     "use_ascend_mc2 gradient_accumulation_fusion no_gradient_accumulation_fusion gemm_gradient_accumulation_fusion manual_gc "
     "manual_gc_interval no_shared_storage ddp_average_in_collective disable_gloo_group use_cp_send_recv_overlap "
     "moe_permutation_async_comm moe_alltoall_overlap_comm moe_fb_overlap moe_shared_expert_overlap overlap_p2p_communication "
     "delay_wgrad_compute moe_zero_memory", "",
     "communication runs beside computation wherever the layout allows it"},
    {"use_liger_kernel enable_liger_kernel attention_backend cross_entropy_loss_fusion cross_entropy_fusion_impl masked_softmax_fusion "
     "no_masked_softmax_fusion bias_dropout_fusion bias_swiglu_fusion no_bias_swiglu_fusion no_bias_dropout_fusion bias_activation_fusion "
     "apply_rope_fusion no_rope_fusion moe_grouped_gemm moe_permute_fusion use_fused_swiglu use_fused_rmsnorm use_fused_rotary_pos_emb "
     "use_fused_ring_attention_update use_fused_moe_token_permute_and_unpermute mla_fa_without_pad mla_mm_split experts_impl shape_order "
     "use_logits_to_keep mtp_mem_efficient_logits use_v1_kernels transformer_impl use_mcore_models lora_fusion apply_rope_no_in_complex", "",
     "fused operators are used where available; trireme check --ops shows which, ops.off turns them off"},
    {"gradient_checkpointing_kwargs use_reentrant_gc vit_gradient_checkpointing", "", "memory.recompute decides"},
    {"attention_softmax_in_fp32 moe_router_dtype router_gating_in_fp32 topk_softmax_in_fp32 accumulate_allreduce_grads_in_fp32 "
     "rmsnorm_weight_in_fp32 init_norm_weight_in_fp32 input_layernorm_in_fp32 bnb_4bit_compute_dtype", "",
     "softmax, norms, routers and gradients are computed in fp32"},
    {"initial_loss_scale", "", "bf16 needs no loss scale"},
    {"reuse_fp32_param", "", "optimizer.masters: split saves the same memory"},
    // how runs are started and what they print
    {"nproc_per_node nnodes node_rank master_addr master_port n_gpus_per_node rdzv_id rdzv_backend rdzv_endpoint local_world_size", "",
     "mpirun starts the ranks"},
    {"logging_first_step log_throughput log_params_norm log_num_zeros_in_grad timing_log_level timing_log_option log_timers_to_tensorboard "
     "log_validation_ppl_to_tensorboard tensorboard_log_interval tensorboard_queue_size log_batch_size_to_tensorboard "
     "log_memory_to_tensorboard log_world_size_to_tensorboard log_completions log_entropy log_rollout_offpolicy_metrics compute_accuracy "
     "include_num_input_tokens_seen save_sharded_optim", "", "the log has it always"},
    {"stream infer_backend load_data_args check_model add_version create_checkpoint_symlink use_hf hub_token push_to_hub move_model_batches "
     "remove_unused_columns ignore_args_error lora_dtype handler_name workers no_save_rng exit_on_missing_checkpoint prompt_type_path "
     "tokenizer_not_use_fast tokenizer_padding_side use_fast_tokenizer seed_of_data ray_run_name ray_storage_path ray_num_workers use_ray "
     "resources_per_worker placement_strategy save_safetensors safe_serialization offload_bridge ckpt_format dist_ckpt_format async_save "
     "eval_on_start label_names label_pad_token_id result_path template_backend sglang_mem_fraction_static upcast_layernorm "
     "linear_decoupled_in_proj tuner_backend log_level disable_tqdm fsdp_transformer_layer_cls_to_wrap", "", "nothing here depends on it"},
    {"vllm_max_model_len vllm_max_num_seqs vllm_enforce_eager vllm_limit_mm_per_prompt vllm_enable_prefix_caching vllm_enable_lora "
     "vllm_enable_expert_parallel vllm_disable_cascade_attn vllm_data_parallel_size vllm_use_async_engine vllm_server_pass_dataset "
     "vllm_max_lora_rank vllm_engine_kwargs vllm_quantization vllm_disable_custom_all_reduce use_async_engine vllm_server_timeout "
     "vllm_server_group_port vllm_pipeline_parallel_size vllm_disable_log_stats vllm_mm_processor_cache_gb sleep_level offload_model", "",
     "the program samples by itself, in the same process and layout"},
    {"save_only_model no_save_optim", "save.weights_only", ""},
    {"merge_lora", "", "trireme merge does it after the run"},
    // keys
    {"shuffle_dataset train_dataloader_shuffle", "data.shuffle", ""},
    {"image_max_pixels", "model.max_pixels", ""},
    {"image_min_pixels", "model.min_pixels", ""},
    {"virtual_pipeline_model_parallel_size", "parallel.virtual_stages", "with parallel.schedule: interleaved"},
    {"tau_pos", "rl.sapo_temperature_pos", ""},
    {"tau_neg", "rl.sapo_temperature_neg", ""},
    {"offload_optimizer", "rl.offload_optimizer", "while this program samples"},
    {"offload_teacher_model", "memory.offload_reference", ""},
    {"save_interval_epochs", "save.every_epoch", ""},
    {"deterministic npu_deterministic", "run.deterministic", ""},
    // what is missing
    {"fp8 fp8_recipe fp8_format fp8_param_gather fp8_backend fp8_enable_fsdp_float8_all_gather", "",
     "model.fp8: rows has products in FP8, a scale for each token and output channel; there is no other recipe", true},
    {"task_type num_labels problem_type", "", "only causal language models and reward models are trained", true},
    {"use_galore galore_target galore_rank galore_scale galore_layerwise galore_quantization galore_optim_per_parameter use_apollo "
     "apollo_target apollo_rank apollo_scale apollo_scale_type apollo_layerwise use_badam badam_mode badam_switch_mode badam_switch_interval "
     "badam_verbose use_adam_mini lisa_activated_layers", "", "optimizer.name has adamw, muon, adafactor, sgd and sgd_momentum", true},
    {"use_llama_pro llamapro_num_new_blocks reft_intervention_type lora_ga_batch_size lora_ga_iters lora_ga_max_length lora_ga_direction "
     "lora_ga_scale lora_ga_stable_gamma oft_block_size oft_target oft_rank use_kt kt_weight_path kt_config mixture_of_depths shift_attn "
     "create_new_adapter use_unsloth", "", "tuning.kind has full, freeze and lora", true},
    {"use_asft_loss use_eaft_loss asft_alpha chord_sft_dataset chord_mu_peak chord_mu_valley "
     "chord_mu_warmup_steps chord_mu_decay_steps chord_enable_phi_function chord_sft_per_device_train_batch_size fipo_decay_rate "
     "fipo_clip_range fipo_clip_high_only fipo_safety_threshold sft_alpha gkd_logits_topk", "", "there is no such loss", true},
    {"external_plugins reward_model_plugin callbacks use_gym_env gym_env custom_register_path custom_dataset_info", "",
     "Python of another system is never run; rewards and environments are programs (rl.rewards, rl.environment)", true},
    {"agent_template response_prefix", "", "conversations are written by the tokenizer's own template", true},
    {"to_cached_dataset", "", "this command only prepares data; trireme tokenize does", true},
    {"video_maxlen video_fps video_max_pixels audio_sampling_rate", "", "videos and audio are not read", true},
    {"teacher_model_server", "", "the teacher runs in the same process: distillation.teacher", true},
    {"tp_2d use_custom_fsdp use_torch_fsdp2 layerzero", "", "parallel.tensor and parallel.zero split the model", true},
    {"decoupled_lr decoupled_min_lr", "", "optimizer.lr_by_name has learning rates by name", true},
};
// clang-format on

// Keys that mean the same in all systems that have them.
constexpr std::string_view kSameNames[] = {"adapters",
                                           "max_length",
                                           "packing",
                                           "system",
                                           "columns",
                                           "modules_to_save",
                                           "seed",
                                           "lr",
                                           "min_lr",
                                           "weight_decay",
                                           "hidden_dropout",
                                           "split",
                                           "streaming",
                                           "label_smoothing",
                                           "ld_alpha",
                                           "reference_free",
                                           "desirable_weight",
                                           "undesirable_weight",
                                           "simpo_gamma",
                                           "cpo_alpha",
                                           "beta",
                                           "temperature",
                                           "top_p",
                                           "top_k",
                                           "epsilon",
                                           "epsilon_high",
                                           "delta",
                                           "steps_per_generation",
                                           "reward_weights",
                                           "scale_rewards",
                                           "top_entropy_quantile",
                                           "max_turns",
                                           "max_resample_times",
                                           "seq_kd",
                                           "discopop_tau",
                                           "max_pixels",
                                           "min_pixels",
                                           "gamma",
                                           "lam",
                                           "vf_coef",
                                           "cliprange_value",
                                           "missing_eos_penalty",
                                           "whiten_rewards",
                                           "sgd_momentum",
                                           "report_to",
                                           "precompute_ref_log_probs",
                                           "bias_correction_kl",
                                           "early_stopping_threshold",
                                           "muon_momentum",
                                           "disable_dropout"};

std::string WithUnderscores(std::string name) {
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

// Whether the row has the name among its own.
bool Names(const OtherName& row, std::string_view name) {
  for (size_t at = row.theirs.find(name); at != std::string_view::npos; at = row.theirs.find(name, at + 1)) {
    const size_t end = at + name.size();
    if ((at == 0 || row.theirs[at - 1] == ' ') && (end == row.theirs.size() || row.theirs[end] == ' ')) return true;
  }
  return false;
}

}  // namespace

std::vector<OtherName> FindOtherNames(const std::string& name) {
  const std::string theirs = WithUnderscores(name);
  std::vector<OtherName> found;
  for (const OtherName& one : kNames) {
    if (!theirs.empty() && Names(one, theirs)) found.push_back(one);
  }
  return found;
}

std::vector<std::string> SameNames(const std::string& name) {
  std::vector<std::string> keys;
  if (std::ranges::find(kSameNames, WithUnderscores(name)) == std::end(kSameNames)) return keys;
  for (const std::string& key : KeysUnder(*Config::descriptor())) {
    if (key.ends_with("." + WithUnderscores(name))) keys.push_back(key);
  }
  return keys;
}

std::optional<std::string> OtherNameHint(const std::string& name, const std::string& section) {
  std::vector<OtherName> found = FindOtherNames(name), here;
  for (const OtherName& one : found) {
    if (!section.empty() && one.ours.starts_with(section)) here.push_back(one);
  }
  if (!here.empty()) found = here;
  if (found.empty()) return std::nullopt;
  if (found.front().missing) return Concat("Trireme does not have it: ", found.front().note);
  if (found.front().ours.empty()) return Concat("leave it out: ", found.front().note);
  std::string keys;
  for (const OtherName& one : found) {
    keys += Concat(keys.empty() ? "" : "; or ", one.ours, one.note.empty() ? "" : ": ", one.note);
  }
  return Concat("in Trireme it is ", keys);
}

}  // namespace trireme
