#include "models/quantisation.h"

#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/base/text.h"

namespace trireme {
namespace {

constexpr char kKey[] = "quantization_config";

void CheckFp8(const HfConfig& how) {
  if (how.Has("fmt")) how.Only("fmt", "e4m3");
  if (how.Has("weight_block_size")) how.Only("weight_block_size", {128, 128});
}

// Of this and the following the files tell which tensors are packed, and how many bits, groups and zeros they have
// (checkpoint/packed_formats.cc).
void CheckMxfp4(const HfConfig& how) {
  how.Unused({"modules_to_not_convert", "dequantize"});
  how.RefuseUnread();
}

// What tells how the weights were found, and with which kernels they are multiplied, changes no weight.
void CheckGptq(const HfConfig& how) {
  const std::string format = how.Has("checkpoint_format") ? how.Text("checkpoint_format") : "gptq";
  if (format != "gptq" && format != "gptq_v2") {
    throw InputError(how.source(), ": checkpoint_format is '", format, "'; wanted gptq or gptq_v2");
  }
  how.Unused({"bits",
              "group_size",
              "sym",
              "desc_act",
              "damp_percent",
              "true_sequential",
              "static_groups",
              "dataset",
              "tokenizer",
              "model_seqlen",
              "block_name_to_quantize",
              "module_name_preceding_first_block",
              "batch_size",
              "pad_token_id",
              "use_cuda_fp16",
              "use_exllama",
              "exllama_config",
              "max_input_length",
              "cache_block_outputs",
              "modules_in_block_to_quantize",
              "model_name_or_path",
              "model_file_base_name",
              "meta",
              "lm_head",
              "pack_dtype",
              "is_marlin_format",
              "backend"});
  how.RefuseUnread();
}

void CheckAwq(const HfConfig& how) {
  for (const char* key : {"version", "format"}) {
    if (how.Has(key)) how.Only(key, "gemm");
  }
  if (how.Has("bits")) how.Only("bits", 4);
  how.Unused({"group_size", "zero_point", "modules_to_not_convert", "backend", "do_fuse", "fuse_max_seq_len",
              "modules_to_fuse", "exllama_config"});
  how.RefuseUnread();
}

// Weights alone: activations or a cache that are rounded in the forward pass would change what the model computes.
void CheckCompressed(const HfConfig& how) {
  how.Only("format", "pack-quantized");
  if (how.Has("config_groups")) {
    const HfConfig groups = how.Within("config_groups"), group = groups.Within("group_0"),
                   weights = group.Within("weights");
    weights.Only("type", "int");
    weights.Only("dynamic", false);
    weights.Unused({"num_bits", "symmetric", "strategy", "group_size", "actorder", "observer", "observer_kwargs",
                    "block_structure", "scale_dtype", "zp_dtype"});
    weights.RefuseUnread();
    group.Only("format", "pack-quantized");
    group.Unused({"targets"});
    group.RefuseUnread();
    groups.RefuseUnread();
  }
  for (const char* key : {"sparsity_config", "transform_config"}) {
    if (how.Has(key)) how.Only(key, Json::object());
  }
  how.Unused({"ignore", "quantization_status", "global_compression_ratio", "version"});
  how.RefuseUnread();
}

void CheckBitsandbytes(const HfConfig& how) {
  for (const char* key : {"load_in_4bit", "load_in_8bit"}) {
    if (how.Has(key) && how.Flag(key, false)) return;
  }
  throw InputError(how.source(), ": has neither load_in_4bit nor load_in_8bit; look for the same model in bf16");
}

struct QuantMethod {
  const char* name;
  void (*check)(const HfConfig& how);
};
constexpr QuantMethod kMethods[] = {{"fp8", CheckFp8},
                                    {"mxfp4", CheckMxfp4},
                                    {"gptq", CheckGptq},
                                    {"awq", CheckAwq},
                                    {"bitsandbytes", CheckBitsandbytes},
                                    {"compressed-tensors", CheckCompressed}};

}  // namespace

void CheckQuantisation(const HfConfig& config) {
  if (!config.Has(kKey)) return;
  const HfConfig how = config.Within(kKey);
  const std::string method = how.Has("quant_method") ? how.Text("quant_method") : "";
  std::vector<std::string> known;
  for (const QuantMethod& one : kMethods) {
    if (method == one.name) return one.check(how);
    known.emplace_back(one.name);
  }
  throw InputError(config.source(), ": ", kKey, " has the quant_method '", method, "'; wanted ", Join(known),
                   ", or plain weights without this key: look for the same model in bf16");
}

}  // namespace trireme
