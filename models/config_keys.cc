#include "models/config_keys.h"

#include <algorithm>

namespace trireme {
namespace {

// clang-format off
constexpr std::string_view kWithoutEffect[] = {
    // What the file is, and how Python loads it.
    "architectures", "auto_map", "model_type", "tokenizer_class", "transformers_version", "use_bfloat16", "use_cache",
    "torch_dtype", "dtype", "torchscript", "tf_legacy_loss", "return_dict", "output_attentions", "output_hidden_states",
    "attn_implementation", "experts_implementation", "use_flash_attn", "use_return_dict",
    // Tokens and lengths: of the tokenizer, the template and generation.
    "bos_token_id", "eos_token_id", "pad_token_id", "sep_token_id", "unk_token_id", "decoder_start_token_id",
    "max_position_embeddings", "model_max_length", "seq_length",
    // Sampling, as older versions stored it.
    "bad_words_ids", "begin_suppress_tokens", "diversity_penalty", "do_sample", "early_stopping",
    "encoder_no_repeat_ngram_size", "exponential_decay_length_penalty", "forced_bos_token_id", "forced_eos_token_id",
    "length_penalty", "max_length", "min_length", "no_repeat_ngram_size", "num_beam_groups", "num_beams",
    "num_return_sequences", "output_scores", "remove_invalid_values", "repetition_penalty", "return_dict_in_generate",
    "suppress_tokens", "temperature", "top_k", "top_p", "typical_p",
    // The sizes that vectors can be cut to.
    "is_matryoshka", "matryoshka_dimensions",
    // Classifiers' labels, and what only encoders and decoders with cross-attention use.
    "add_cross_attention", "chunk_size_feed_forward", "cross_attention_hidden_size", "finetuning_task", "id2label",
    "is_decoder", "is_encoder_decoder", "label2id", "num_labels", "prefix", "problem_type", "pruned_heads",
    "task_specific_params", "tie_encoder_decoder",
    // Written by training code: slices of a product, auxiliary losses (here: run.yaml's section moe), parallel sizes.
    "aux_loss_alpha", "ep_size", "pretraining_tp", "router_aux_loss_coef", "seq_aux",
};
// clang-format on

}  // namespace

bool IsWithoutEffect(std::string_view key) {
  return key.starts_with('_') || std::ranges::find(kWithoutEffect, key) != std::end(kWithoutEffect);
}

}  // namespace trireme
