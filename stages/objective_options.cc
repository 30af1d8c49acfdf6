#include "stages/objective_options.h"

namespace trireme {
namespace {

PairDivergence DivergenceOf(Divergence key) {
  switch (key) {
    case DIVERGENCE_REVERSE_KL:
      return PairDivergence::kReverseKl;
    case DIVERGENCE_FORWARD_KL:
      return PairDivergence::kForwardKl;
    case DIVERGENCE_JS:
      return PairDivergence::kJs;
    case DIVERGENCE_ALPHA:
      return PairDivergence::kAlpha;
  }
  return PairDivergence::kReverseKl;
}

SamplerRatio SamplerRatioOf(SamplerCorrection key) {
  switch (key) {
    case CORRECTION_NONE:
      return SamplerRatio::kNone;
    case CORRECTION_TOKEN_TRUNCATE:
      return SamplerRatio::kTokenTruncate;
    case CORRECTION_TOKEN_MASK:
      return SamplerRatio::kTokenMask;
    case CORRECTION_SEQUENCE_TRUNCATE:
      return SamplerRatio::kSequenceTruncate;
    case CORRECTION_SEQUENCE_MASK:
      return SamplerRatio::kSequenceMask;
  }
  return SamplerRatio::kNone;
}

AnswerLossOptions AnswerOptionsOf(const PreferenceConfig& keys) {
  return {.losses = {keys.loss().begin(), keys.loss().end()},
          .weights = {keys.weights().begin(), keys.weights().end()},
          .pair = {.beta = keys.beta(),
                   .label_smoothing = keys.label_smoothing(),
                   .divergence = DivergenceOf(keys.divergence()),
                   .divergence_alpha = keys.divergence_alpha(),
                   .discopop_tau = keys.discopop_tau(),
                   .simpo_gamma = keys.simpo_gamma()},
          .sft_weight = keys.sft_weight(),
          .cpo_alpha = keys.cpo_alpha(),
          .desirable_weight = keys.desirable_weight(),
          .undesirable_weight = keys.undesirable_weight(),
          .center_rewards = keys.center_rewards()};
}

PolicyLossOptions PolicyOptionsOf(const RlConfig& keys) {
  return {.loss = keys.loss(),
          .sequence_level = keys.level() == LEVEL_SEQUENCE,
          .beta = keys.beta(),
          .epsilon = keys.epsilon(),
          .epsilon_high = keys.epsilon_high(),
          .delta = keys.delta(),
          .temperature = keys.temperature(),
          .max_new_tokens = keys.max_new_tokens(),
          .entropy_coef = keys.entropy_coef(),
          .top_entropy_quantile = keys.top_entropy_quantile(),
          .bias_correction_kl = keys.bias_correction_kl(),
          .sapo_temperature_pos = keys.sapo_temperature_pos(),
          .sapo_temperature_neg = keys.sapo_temperature_neg(),
          .sampler_correction = SamplerRatioOf(keys.sampler_correction()),
          .sampler_clip_min = keys.sampler_clip_min(),
          .sampler_clip_max = keys.sampler_clip_max()};
}

TextPooling PoolingOf(Pooling key) {
  switch (key) {
    case POOLING_LAST:
      return TextPooling::kLast;
    case POOLING_MEAN:
      return TextPooling::kMean;
    case POOLING_FIRST:
      return TextPooling::kFirst;
  }
  return TextPooling::kLast;
}

VectorLoss VectorLossOf(EmbeddingLoss key) {
  switch (key) {
    case EMBEDDING_LOSS_INFONCE:
      return VectorLoss::kInfoNce;
    case EMBEDDING_LOSS_COSINE:
      return VectorLoss::kCosine;
    case EMBEDDING_LOSS_COSENT:
      return VectorLoss::kCosent;
    case EMBEDDING_LOSS_CONTRASTIVE:
      return VectorLoss::kContrastive;
    case EMBEDDING_LOSS_ONLINE_CONTRASTIVE:
      return VectorLoss::kOnlineContrastive;
  }
  return VectorLoss::kInfoNce;
}

LabelKind LabelKindOf(Problem key) {
  switch (key) {
    case PROBLEM_SINGLE_LABEL:
      return LabelKind::kSingle;
    case PROBLEM_MULTI_LABEL:
      return LabelKind::kMulti;
    case PROBLEM_REGRESSION:
      return LabelKind::kRegression;
  }
  return LabelKind::kSingle;
}

TextLossOptions TextOptionsOf(const RetrievalConfig& keys) {
  return {.pooling = PoolingOf(keys.pooling()),
          .loss = VectorLossOf(keys.loss()),
          .temperature = keys.temperature(),
          .in_batch = keys.in_batch(),
          .mask_false_negatives = keys.mask_false_negatives(),
          .false_negative_margin = keys.false_negative_margin(),
          .query_query = keys.query_query(),
          .document_document = keys.document_document(),
          .margin = keys.margin(),
          .matryoshka = {keys.matryoshka().begin(), keys.matryoshka().end()},
          .matryoshka_weights = {keys.matryoshka_weights().begin(), keys.matryoshka_weights().end()},
          .listwise = keys.ranking() == RANKING_LOSS_LISTWISE,
          .labels = LabelKindOf(keys.problem())};
}

}  // namespace

ObjectiveOptions ObjectiveOptionsOf(const Config& config) {
  return {.tokens = {.label_smoothing = config.loss().label_smoothing(),
                     .z_coefficient = config.loss().z_coefficient(),
                     .by_probability = config.loss().kind() == TOKEN_LOSS_DFT},
          .answers = AnswerOptionsOf(config.preference()),
          .policy = PolicyOptionsOf(config.rl()),
          .value = {.clip_range = config.rl().cliprange_value(), .weight = config.rl().vf_coef()},
          .distillation = {.beta = config.distillation().beta(), .temperature = config.distillation().temperature()},
          .texts = TextOptionsOf(config.retrieval())};
}

}  // namespace trireme
