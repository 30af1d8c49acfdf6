"""Models whose code comes with their files and not with transformers: their rules, keys and names as published, built from
the parts of transformers' Llama, Granite and GLM-4.5. What the program is compared with for these families; knows nothing of it."""
import math

import transformers
from torch import nn
from transformers import conversion_mapping, core_model_loading
from transformers.models.glm4_moe import modeling_glm4_moe
from transformers.models.granite import modeling_granite
from transformers.models.llama import modeling_llama


def other_name(new):
    """An attribute of transformers' class under the published name, which is that of its weights."""
    return property(lambda self: getattr(self, new))


def rename(module, **names):
    for old, new in names.items():
        setattr(module, new, module._modules.pop(old))


def draw(model):
    """Matrices that came after transformers' own initial weights."""
    for parameter in model.parameters():
        if parameter.dim() > 1:
            nn.init.normal_(parameter, std=model.config.initializer_range)


class Published(transformers.LlamaConfig):
    """Llama's keys without those that the published class does not have."""
    FOREIGN = ("attention_bias", "attention_dropout", "mlp_bias", "head_dim")

    def to_dict(self):
        return {key: value for key, value in super().to_dict().items() if key not in self.FOREIGN}


class Fused:
    """Attention with q, k and v from one matrix: `split` gives them from what it gives."""

    def __init__(self, config, layer_idx):
        super().__init__(config, layer_idx)
        del self.q_proj, self.k_proj, self.v_proj

    def forward(self, hidden_states, **rest):
        parts = self.split(hidden_states)
        for name, part in zip(("q_proj", "k_proj", "v_proj"), parts):
            setattr(self, name, lambda _, part=part: part)
        return super().forward(hidden_states, **rest)


class FusedAttention(Fused, modeling_llama.LlamaAttention):
    pass


class InternLM2Config(Published):
    model_type = "internlm2"
    bias: bool = True


class InternLM2Attention(FusedAttention):
    o_proj = other_name("wo")

    def __init__(self, config, layer_idx):
        super().__init__(config, layer_idx)
        heads = config.num_attention_heads + 2 * config.num_key_value_heads
        self.wqkv = nn.Linear(config.hidden_size, heads * self.head_dim, bias=config.bias)
        self._modules.pop("o_proj")
        self.wo = nn.Linear(config.num_attention_heads * self.head_dim, config.hidden_size, bias=config.bias)

    def split(self, hidden_states):
        queries = self.num_key_value_groups
        groups = self.wqkv(hidden_states).unflatten(-1, (self.config.num_key_value_heads, queries + 2, self.head_dim))
        return groups[..., :queries, :].flatten(-3), groups[..., -2, :].flatten(-2), groups[..., -1, :].flatten(-2)


class InternLM2MLP(modeling_llama.LlamaMLP):
    gate_proj, up_proj, down_proj = other_name("w1"), other_name("w3"), other_name("w2")

    def __init__(self, config):
        super().__init__(config)
        rename(self, gate_proj="w1", up_proj="w3", down_proj="w2")


class InternLM2DecoderLayer(modeling_llama.LlamaDecoderLayer):
    self_attn, mlp = other_name("attention"), other_name("feed_forward")
    input_layernorm, post_attention_layernorm = other_name("attention_norm"), other_name("ffn_norm")

    def __init__(self, config, layer_idx):
        super().__init__(config, layer_idx)
        del self._modules["self_attn"], self._modules["mlp"]
        self.attention, self.feed_forward = InternLM2Attention(config, layer_idx), InternLM2MLP(config)
        rename(self, input_layernorm="attention_norm", post_attention_layernorm="ffn_norm")


class InternLM2Model(modeling_llama.LlamaModel):
    embed_tokens = other_name("tok_embeddings")

    def __init__(self, config):
        super().__init__(config)
        rename(self, embed_tokens="tok_embeddings")
        self.layers = nn.ModuleList(InternLM2DecoderLayer(config, layer) for layer in range(config.num_hidden_layers))


class InternLM2ForCausalLM(modeling_llama.LlamaForCausalLM):
    config_class = InternLM2Config
    _tied_weights_keys = {"output.weight": "model.tok_embeddings.weight"}
    lm_head = other_name("output")

    def __init__(self, config):
        super().__init__(config)
        self.model = InternLM2Model(config)
        rename(self, lm_head="output")
        draw(self)


class InternLM3Config(Published):
    model_type = "internlm3"
    FOREIGN = ("attention_bias", "mlp_bias")
    qkv_bias: bool = False
    bias: bool = False

    def __post_init__(self, **rest):
        super().__post_init__(**rest)
        self.attention_bias, self.mlp_bias = self.qkv_bias, self.bias


class InternLM3ForCausalLM(modeling_llama.LlamaForCausalLM):
    config_class = InternLM3Config

    def __init__(self, config):
        super().__init__(config)
        for layer in self.model.layers:
            old = layer.self_attn.o_proj
            layer.self_attn.o_proj = nn.Linear(old.in_features, old.out_features, bias=config.bias)
        draw(self)


class BaichuanConfig(Published):
    model_type = "baichuan"
    FOREIGN = (*Published.FOREIGN, "num_key_value_heads", "rope_parameters", "pretraining_tp")
    z_loss_weight: float = 0.0


class BaichuanAttention(FusedAttention):
    def __init__(self, config, layer_idx):
        super().__init__(config, layer_idx)
        self.W_pack = nn.Linear(config.hidden_size, 3 * config.hidden_size, bias=False)

    def split(self, hidden_states):
        return self.W_pack(hidden_states).chunk(3, dim=-1)


class NormHead(nn.Linear):
    def forward(self, hidden_states):
        return nn.functional.linear(hidden_states, nn.functional.normalize(self.weight))


class BaichuanForCausalLM(modeling_llama.LlamaForCausalLM):
    config_class = BaichuanConfig

    def __init__(self, config):
        super().__init__(config)
        for index, layer in enumerate(self.model.layers):
            layer.self_attn = BaichuanAttention(config, index)
        self.lm_head = NormHead(config.hidden_size, config.vocab_size, bias=False)
        draw(self)


class MiniCPMConfig(transformers.GraniteConfig):
    """Granite's factors by other keys."""
    model_type = "minicpm"
    FOREIGN = ("embedding_multiplier", "attention_multiplier", "residual_multiplier", "logits_scaling", "mlp_bias")
    scale_emb: float = 1.0
    scale_depth: float = 1.0
    dim_model_base: int = 1

    def __post_init__(self, **rest):
        super().__post_init__(**rest)
        self.embedding_multiplier = self.scale_emb
        self.attention_multiplier = (self.hidden_size / self.num_attention_heads) ** -0.5
        self.residual_multiplier = self.scale_depth / math.sqrt(self.num_hidden_layers)
        self.logits_scaling = self.hidden_size / self.dim_model_base

    def to_dict(self):
        return {key: value for key, value in super().to_dict().items() if key not in self.FOREIGN}


class MiniCPMForCausalLM(modeling_granite.GraniteForCausalLM):
    config_class = MiniCPMConfig


class BailingMoeV2Config(transformers.Glm4MoeConfig):
    """GLM-4.5's layers by other keys. In files some names are others, too: BAILING_NAMES."""
    model_type = "bailing_moe"
    FOREIGN = ("attention_bias", "n_routed_experts", "n_shared_experts", "num_local_experts", "num_mtp_layers", "num_nextn_predict_layers")
    num_experts: int = 8
    num_shared_experts: int = 1
    use_qkv_bias: bool = False
    use_bias: bool = False
    score_function: str = "sigmoid"

    def __post_init__(self, **rest):
        super().__post_init__(**rest)
        self.n_routed_experts, self.n_shared_experts = self.num_experts, self.num_shared_experts

    def to_dict(self):
        return {key: value for key, value in super().to_dict().items() if key not in self.FOREIGN}


class BailingMoeV2Attention(Fused, modeling_glm4_moe.Glm4MoeAttention):
    def __init__(self, config, layer_idx):
        super().__init__(config, layer_idx)
        heads, keys = config.num_attention_heads * self.head_dim, config.num_key_value_heads * self.head_dim
        self.sizes = [heads, keys, keys]
        self.query_key_value = nn.Linear(config.hidden_size, sum(self.sizes), bias=config.use_qkv_bias)
        self.o_proj = nn.Linear(heads, config.hidden_size, bias=config.use_bias)

    def split(self, hidden_states):
        return self.query_key_value(hidden_states).split(self.sizes, dim=-1)


class BailingMoeV2ForCausalLM(modeling_glm4_moe.Glm4MoeForCausalLM):
    config_class = BailingMoeV2Config

    def __init__(self, config):
        super().__init__(config)
        for index, layer in enumerate(self.model.layers):
            layer.self_attn = BailingMoeV2Attention(config, index)
        draw(self)


# In files to in memory.
BAILING_NAMES = {".attention.query_layernorm.": ".self_attn.q_norm.", ".attention.key_layernorm.": ".self_attn.k_norm.",
                 ".attention.dense.": ".self_attn.o_proj.", ".attention.query_key_value.": ".self_attn.query_key_value.",
                 ".gate.expert_bias": ".gate.e_score_correction_bias", ".word_embeddings.": ".embed_tokens."}
conversion_mapping.register_checkpoint_conversion_mapping("bailing_moe", [
    *conversion_mapping.get_checkpoint_conversion_mapping("qwen2_moe"),
    *(core_model_loading.WeightRenaming(source_patterns=there.replace(".", r"\."), target_patterns=here)
      for there, here in BAILING_NAMES.items())])
for model_class in (InternLM2ForCausalLM, InternLM3ForCausalLM, BaichuanForCausalLM, MiniCPMForCausalLM, BailingMoeV2ForCausalLM):
    transformers.AutoConfig.register(model_class.config_class.model_type, model_class.config_class, exist_ok=True)
    transformers.AutoModelForCausalLM.register(model_class.config_class, model_class, exist_ok=True)
