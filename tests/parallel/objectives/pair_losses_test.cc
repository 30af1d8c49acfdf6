// Every loss of pairs: its derivatives by finite differences, its value where policy and reference agree, and what
// follows from its formula alone.
#include "parallel/objectives/pair_losses.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <span>
#include <string>

#include "core/base/error.h"
#include "core/config/unused_keys.h"
#include "stages/preference_check.h"

namespace trireme {
namespace {

constexpr PairScores kPair{.chosen = -21.5,
                           .rejected = -17.25,
                           .reference_chosen = -22.75,
                           .reference_rejected = -16.5,
                           .chosen_tokens = 9,
                           .rejected_tokens = 7,
                           .rival = -5.5,
                           .chosen_rival = -0.5,
                           .rejected_rival = 1.0};
constexpr double kStep = 1e-5, kTolerance = 1e-7;

// Derivatives against differences; `pair` is off every kink.
void ExpectSlopes(const PairLossFunction& loss, const PairScores& pair, const PairLossOptions& how,
                  const std::string& name, bool chosen_only = false) {
  const PairGradient found = loss(pair, how);
  PairScores more = pair, less = pair;
  more.chosen += kStep;
  less.chosen -= kStep;
  EXPECT_NEAR(found.chosen, (loss(more, how).value - loss(less, how).value) / (2 * kStep), kTolerance) << name;
  if (chosen_only) return;
  more = less = pair;
  more.rejected += kStep;
  less.rejected -= kStep;
  EXPECT_NEAR(found.rejected, (loss(more, how).value - loss(less, how).value) / (2 * kStep), kTolerance) << name;
}

TEST(PairLosses, DerivativesAreThoseOfFiniteDifferences) {
  for (const double smoothing : {0.01, 0.3}) {
    for (const PairDivergence divergence :
         {PairDivergence::kReverseKl, PairDivergence::kForwardKl, PairDivergence::kJs, PairDivergence::kAlpha}) {
      const PairLossOptions how{
          .beta = 0.3, .label_smoothing = smoothing, .divergence = divergence, .divergence_alpha = 0.7};
      for (const PairLoss& loss : DpoLosses()) {
        if (divergence != PairDivergence::kReverseKl && !loss.diverges) continue;
        // The rejected side of aot_unpaired belongs to another place's value.
        ExpectSlopes(loss.function, kPair, how, loss.name, std::string(loss.name) == "aot_unpaired");
      }
      for (const PairLoss& loss : CpoLosses()) ExpectSlopes(loss.function, kPair, how, loss.name);
    }
  }
  ExpectSlopes([](const PairScores& pair, const PairLossOptions& how) { return OddsRatioLoss(pair, how.beta).loss; },
               kPair, {.beta = 0.3}, "orpo");
}

// A batch of one place: value and both derivatives are one function's again.
TEST(PairLosses, UnpairedRejectedAnswersMirrorTheirRivals) {
  const PairLossOptions how{.beta = 0.2, .label_smoothing = 0.1};
  const auto find = [](const std::string& name) {
    for (const PairLoss& loss : DpoLosses()) {
      if (name == loss.name) return loss.function;
    }
    throw RuntimeError("no ", name);
  };
  PairScores alone = kPair;
  alone.chosen_rival = alone.rejected_ratio();
  alone.rejected_rival = alone.chosen_ratio();
  alone.rival = alone.reference_chosen - alone.reference_rejected;
  for (const char* name : {"aot", "aot_unpaired"}) {
    const PairGradient found = find(name)(alone, how), wanted = find("sigmoid")(alone, how);
    EXPECT_NEAR(found.value, wanted.value, 1e-12) << name;
    EXPECT_NEAR(found.chosen, wanted.chosen, 1e-12) << name;
    EXPECT_NEAR(found.rejected, wanted.rejected, 1e-12) << name;
  }
}

TEST(PairLosses, ConstantsWherePolicyAndReferenceAgree) {
  const double two = std::log(2.0), beta = 0.1, smoothing = 1e-3;
  const std::map<std::string, double> wanted = {
      {"sigmoid", two},
      {"robust", two},
      {"hinge", 1},
      {"ipo", 1 / (4 * beta * beta)},
      {"nca_pair", 2 * two},
      {"bco_pair", 2 * two},
      {"apo_zero", 1},
      {"apo_down", 1},
      {"aot", two},
      {"aot_unpaired", two},
      {"sigmoid_norm", two},
      {"discopop", 0.5 * two + 0.5},
      {"sppo_hard", 1 / (2 * beta * beta)},
      {"exo_pair", 0.5 * (-2 * two - std::log1p(-smoothing) - std::log(smoothing))}};
  PairScores same = kPair;
  same.reference_chosen = same.chosen;
  same.reference_rejected = same.rejected;
  same.rival = same.chosen - same.rejected;
  same.chosen_rival = same.rejected_rival = 0;
  for (const PairDivergence divergence :
       {PairDivergence::kReverseKl, PairDivergence::kForwardKl, PairDivergence::kJs, PairDivergence::kAlpha}) {
    for (const PairLoss& loss : DpoLosses()) {
      if (divergence != PairDivergence::kReverseKl && !loss.diverges) continue;
      const PairLossOptions how{.beta = beta, .label_smoothing = smoothing, .divergence = divergence};
      ASSERT_TRUE(wanted.contains(loss.name)) << loss.name;
      EXPECT_NEAR(loss.function(same, how).value, wanted.at(loss.name), 1e-12) << loss.name;
    }
  }
}

const PairLoss& Named(std::span<const PairLoss> losses, const std::string& name) {
  for (const PairLoss& loss : losses) {
    if (name == loss.name) return loss;
  }
  throw RuntimeError("no ", name);
}

TEST(PairLosses, HingesPullNoFurtherThanTheirMargin) {
  PairScores apart = kPair;
  apart.chosen = apart.rejected + apart.reference_chosen - apart.reference_rejected + 20;
  const PairGradient dpo = Named(DpoLosses(), "hinge").function(apart, {.beta = 0.3});
  EXPECT_EQ(dpo.value, 0);
  EXPECT_EQ(dpo.chosen, 0);
  EXPECT_EQ(dpo.rejected, 0);
  EXPECT_EQ(Named(CpoLosses(), "hinge").function({.chosen = 20}, {.beta = 0.3}).value, 0);
}

// -log σ(beta · (mean of the chosen one - mean of the rejected one) - gamma).
TEST(PairLosses, SimPoWantsItsMarginWhateverBetaIs) {
  for (const double beta : {0.5, 2.0}) {
    const double margin = beta * (-21.5 / 9 + 17.25 / 7) - 0.75;
    EXPECT_NEAR(Named(CpoLosses(), "simpo").function(kPair, {.beta = beta, .simpo_gamma = 0.75}).value,
                -LogSigmoid(margin), 1e-12);
  }
}

TEST(PairLosses, SwappingSidesTurnsTheMarginAround) {
  PairScores swapped = kPair;
  std::swap(swapped.chosen, swapped.rejected);
  std::swap(swapped.reference_chosen, swapped.reference_rejected);
  std::swap(swapped.chosen_tokens, swapped.rejected_tokens);
  const PairLossOptions how{.beta = 0.4};
  const double margin = how.beta * (kPair.chosen_ratio() - kPair.rejected_ratio());
  const PairLossFunction sigmoid = DpoLosses()[0].function;
  // -log σ(-m) - (-log σ(m)) = m.
  EXPECT_NEAR(sigmoid(swapped, how).value - sigmoid(kPair, how).value, margin, 1e-12);
}

TEST(PairLosses, SmoothedSigmoidIsWhatTwoOfTrlsLossesMake) {
  const double smoothing = 0.2;
  const PairLossOptions how{.beta = 0.4, .label_smoothing = smoothing}, plain{.beta = 0.4};
  const double mixed = 2 * (1 - smoothing) * DpoLosses()[0].function(kPair, plain).value -
                       (1 - 2 * smoothing) * DpoLosses()[3].function(kPair, how).value;
  ASSERT_STREQ(DpoLosses()[3].name, "robust");
  EXPECT_NEAR(DpoLosses()[0].function(kPair, how).value, mixed, 1e-12);
}

std::string Refusal(const Config& config) {
  try {
    RefuseUnusedKeys(config);
    CheckPreference(config);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInput);
    return error.what();
  }
  return "";
}

TEST(PreferenceCheck, RefusesWhatDoesNotFitTogether) {
  Config config;
  config.set_stage(STAGE_DPO);
  EXPECT_EQ(Refusal(config), "");
  const auto expect = [&](const std::string& words, const auto& change) {
    Config other = config;
    change(other);
    EXPECT_NE(Refusal(other).find(words), std::string::npos) << words << ": " << Refusal(other);
  };
  expect("'sigmiod'; wanted for stage dpo: sigmoid", [](Config& c) { c.mutable_preference()->add_loss("sigmiod"); });
  expect("2 numbers for 1 losses", [](Config& c) {
    c.mutable_preference()->add_loss("hinge");
    c.mutable_preference()->add_weights(1);
    c.mutable_preference()->add_weights(2);
  });
  expect("exo_pair takes its logarithm", [](Config& c) { c.mutable_preference()->add_loss("exo_pair"); });
  expect("apo_zero is defined for reverse_kl alone", [](Config& c) {
    c.mutable_preference()->add_loss("apo_zero");
    c.mutable_preference()->set_divergence(DIVERGENCE_JS);
  });
  expect("wanted above 0", [](Config& c) { c.mutable_preference()->set_beta(0); });
  expect("needs a reference", [](Config& c) {
    c.set_stage(STAGE_KTO);
    c.set_reference("none");
  });
  expect("reference = some/model is for stages dpo, kto, grpo, rloo, reinforce_plus_plus, ppo and bco, not orpo",
         [](Config& c) {
           c.set_stage(STAGE_ORPO);
           c.set_reference("some/model");
         });
  expect("write drop or truncate", [](Config& c) { c.mutable_data()->set_over_length(OVER_LENGTH_SPLIT); });
  expect("multi_token_prediction.depths = 1 is for stages pt and sft, not dpo",
         [](Config& c) { c.mutable_multi_token_prediction()->set_depths(1); });
  expect("base is the same", [](Config& c) {
    c.set_reference("start");
    c.mutable_tuning()->set_kind(TUNING_FULL);
  });
}

}  // namespace
}  // namespace trireme
