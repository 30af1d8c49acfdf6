// What a run says to its objective, as plain values; stages/objective_options.h makes them of the configuration's keys,
// whose defaults these are. A loss that takes a new number takes it from here. No torch, no configuration.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "parallel/objectives/pair_losses.h"
#include "parallel/objectives/policy_losses.h"

namespace trireme {

// Of losses over tokens.
struct TokenLossOptions {
  double label_smoothing = 0;
  double z_coefficient = 0;     // of the squared log of the sum of exponentials
  bool by_probability = false;  // a token's loss counts as much as its probability (DFT)

  bool operator==(const TokenLossOptions&) const = default;
};

// Of losses over compared or judged answers.
struct AnswerLossOptions {
  std::vector<std::string> losses = {};  // by name; empty: the objective's own
  std::vector<double> weights = {};      // one for each of them; empty: 1 each
  PairLossOptions pair = {};             // its beta is that of single answers, too
  double sft_weight = 0;                 // of the chosen answers' negative log-likelihood beside DPO's losses
  double cpo_alpha = 1;                  // the same beside CPO's
  double desirable_weight = 1, undesirable_weight = 1;
  double center_rewards = 0;  // what keeps scores around 0

  bool operator==(const AnswerLossOptions&) const = default;
};

// Of losses of a value model, or head.
struct ValueLossOptions {
  double clip_range = 0.2;  // how far a value counts as moved from the old one
  double weight = 0.1;      // of the loss in the gradient

  bool operator==(const ValueLossOptions&) const = default;
};

struct DistillationOptions {
  double beta = 0.5;  // 0: forward KL, 1: reverse KL, between: a mixture's
  double temperature = 1;

  bool operator==(const DistillationOptions&) const = default;
};

// Which hidden state stands for a text.
enum class TextPooling { kLast, kMean, kFirst };

// Losses of vectors of texts, by the names of their key.
enum class VectorLoss { kInfoNce, kCosine, kCosent, kContrastive, kOnlineContrastive };

// What labels of a text are.
enum class LabelKind { kSingle, kMulti, kRegression };

// Of vectors, scores and labels of whole texts.
struct TextLossOptions {
  TextPooling pooling = TextPooling::kLast;
  VectorLoss loss = VectorLoss::kInfoNce;
  double temperature = 0.05;  // of vectors' cosines and of lists' scores
  bool in_batch = true;       // negatives of other records
  bool mask_false_negatives = false;
  double false_negative_margin = 0.1;
  bool query_query = false, document_document = false;
  double margin = 0.5;
  std::vector<int64_t> matryoshka = {};  // sizes; empty: whole vectors
  std::vector<double> matryoshka_weights = {};
  bool listwise = false;
  LabelKind labels = LabelKind::kSingle;

  bool operator==(const TextLossOptions&) const = default;
};

struct ObjectiveOptions {
  TokenLossOptions tokens = {};
  AnswerLossOptions answers = {};
  PolicyLossOptions policy = {};
  ValueLossOptions value = {};
  DistillationOptions distillation = {};
  TextLossOptions texts = {};

  bool operator==(const ObjectiveOptions&) const = default;
};

}  // namespace trireme
