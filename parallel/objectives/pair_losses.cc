#include "parallel/objectives/pair_losses.h"

#include <algorithm>
#include <cmath>

namespace trireme {
namespace {

// A value and its derivative by one number.
struct Slope {
  double value = 0, derivative = 0;
};

// A log-ratio as the divergence sees it.
Slope Score(double ratio, const PairLossOptions& how) {
  switch (how.divergence) {
    case PairDivergence::kReverseKl:
      break;
    case PairDivergence::kForwardKl:
      return {1 - std::exp(-ratio), std::exp(-ratio)};
    case PairDivergence::kJs:
      return {std::log(2.0) + LogSigmoid(ratio), Sigmoid(-ratio)};
    case PairDivergence::kAlpha: {
      constexpr double kLargestExponent = 80;  // as in TRL, where fp32 ends
      const double power = how.divergence_alpha - 1;
      if (std::abs(power) < 1e-6) break;
      const double exponent = power * ratio;
      if (exponent > kLargestExponent) return {(std::exp(kLargestExponent) - 1) / power, 0};
      return {(std::exp(exponent) - 1) / power, std::exp(exponent)};
    }
  }
  return {ratio, 1};
}

struct Scores {
  Slope chosen, rejected;
  double delta() const { return chosen.value - rejected.value; }
};

Scores ScoresOf(const PairScores& pair, const PairLossOptions& how) {
  return {Score(pair.chosen_ratio(), how), Score(pair.rejected_ratio(), how)};
}

// From a loss of the difference of both scores.
PairGradient OfDelta(const Scores& scores, const Slope& loss) {
  return {loss.value, loss.derivative * scores.chosen.derivative, -loss.derivative * scores.rejected.derivative};
}

// -(1 - ε) log σ(x) - ε log σ(-x), with x = beta · d.
Slope SmoothedSigmoid(double d, const PairLossOptions& how) {
  const double x = how.beta * d, smoothing = how.label_smoothing;
  return {-(1 - smoothing) * LogSigmoid(x) - smoothing * LogSigmoid(-x),
          how.beta * (-(1 - smoothing) * Sigmoid(-x) + smoothing * Sigmoid(x))};
}

Slope HingeOf(double d, const PairLossOptions& how) {
  const double room = 1 - how.beta * d;
  return room > 0 ? Slope{room, -how.beta} : Slope{};
}

Slope SquareOf(double d, double wanted) { return {(d - wanted) * (d - wanted), 2 * (d - wanted)}; }

PairGradient SigmoidLoss(const PairScores& pair, const PairLossOptions& how) {
  const Scores scores = ScoresOf(pair, how);
  return OfDelta(scores, SmoothedSigmoid(scores.delta(), how));
}

PairGradient Hinge(const PairScores& pair, const PairLossOptions& how) {
  const Scores scores = ScoresOf(pair, how);
  return OfDelta(scores, HingeOf(scores.delta(), how));
}

// Scores per token of each answer.
Scores PerToken(const PairScores& pair, const PairLossOptions& how) {
  Scores scores = ScoresOf(pair, how);
  const auto chosen = static_cast<double>(std::max<int64_t>(pair.chosen_tokens, 1));
  const auto rejected = static_cast<double>(std::max<int64_t>(pair.rejected_tokens, 1));
  return {{scores.chosen.value / chosen, scores.chosen.derivative / chosen},
          {scores.rejected.value / rejected, scores.rejected.derivative / rejected}};
}

PairGradient Ipo(const PairScores& pair, const PairLossOptions& how) {
  const Scores scores = PerToken(pair, how);
  return OfDelta(scores, SquareOf(scores.delta(), 0.5 / how.beta));
}

PairGradient SigmoidNorm(const PairScores& pair, const PairLossOptions& how) {
  const Scores scores = PerToken(pair, how);
  const double x = how.beta * scores.delta();
  return OfDelta(scores, {-LogSigmoid(x), -how.beta * Sigmoid(-x)});
}

PairGradient Robust(const PairScores& pair, const PairLossOptions& how) {
  const Scores scores = ScoresOf(pair, how);
  const double x = how.beta * scores.delta(), smoothing = how.label_smoothing, scale = 1 - 2 * smoothing;
  return OfDelta(scores, {(-(1 - smoothing) * LogSigmoid(x) + smoothing * LogSigmoid(-x)) / scale,
                          how.beta * (-(1 - smoothing) * Sigmoid(-x) - smoothing * Sigmoid(x)) / scale});
}

PairGradient ExoPair(const PairScores& pair, const PairLossOptions& how) {
  const Scores scores = ScoresOf(pair, how);
  const double x = how.beta * scores.delta(), smoothing = how.label_smoothing;
  const double first = LogSigmoid(x) - std::log1p(-smoothing), second = LogSigmoid(-x) - std::log(smoothing);
  const double win = Sigmoid(x), lose = Sigmoid(-x);
  // What comes of the logarithms' own slopes cancels.
  return OfDelta(scores, {win * first + lose * second, how.beta * win * lose * (first - second)});
}

PairGradient NcaPair(const PairScores& pair, const PairLossOptions& how) {
  const double chosen = how.beta * pair.chosen_ratio(), rejected = how.beta * pair.rejected_ratio();
  return {-LogSigmoid(chosen) - 0.5 * LogSigmoid(-chosen) - 0.5 * LogSigmoid(-rejected),
          how.beta * (-Sigmoid(-chosen) + 0.5 * Sigmoid(chosen)), how.beta * 0.5 * Sigmoid(rejected)};
}

PairGradient BcoPair(const PairScores& pair, const PairLossOptions& how) {
  const double chosen = how.beta * pair.chosen_ratio(), rejected = how.beta * pair.rejected_ratio();
  return {-LogSigmoid(chosen) - LogSigmoid(-rejected), -how.beta * Sigmoid(-chosen), how.beta * Sigmoid(rejected)};
}

PairGradient SppoHard(const PairScores& pair, const PairLossOptions& how) {
  const Slope chosen = SquareOf(pair.chosen_ratio(), 0.5 / how.beta);
  const Slope rejected = SquareOf(pair.rejected_ratio(), -0.5 / how.beta);
  return {chosen.value + rejected.value, chosen.derivative, rejected.derivative};
}

PairGradient Aot(const PairScores& pair, const PairLossOptions& how) {
  const Slope loss = SmoothedSigmoid(pair.chosen - pair.rejected - pair.rival, how);
  return {loss.value, loss.derivative, -loss.derivative};
}

// Each place of the sorted lists counts once, with its chosen answer.
PairGradient AotUnpaired(const PairScores& pair, const PairLossOptions& how) {
  const Slope chosen = SmoothedSigmoid(pair.chosen_ratio() - pair.chosen_rival, how);
  const Slope rejected = SmoothedSigmoid(pair.rejected_rival - pair.rejected_ratio(), how);
  return {chosen.value, chosen.derivative, -rejected.derivative};
}

PairGradient ApoZero(const PairScores& pair, const PairLossOptions& how) {
  const double chosen = Sigmoid(how.beta * pair.chosen_ratio()), rejected = Sigmoid(how.beta * pair.rejected_ratio());
  return {1 - chosen + rejected, -how.beta * chosen * (1 - chosen), how.beta * rejected * (1 - rejected)};
}

PairGradient ApoDown(const PairScores& pair, const PairLossOptions& how) {
  const double chosen = Sigmoid(how.beta * pair.chosen_ratio());
  const double better = Sigmoid(how.beta * (pair.chosen_ratio() - pair.rejected_ratio()));
  const double slope = how.beta * better * (1 - better);
  return {chosen + 1 - better, how.beta * chosen * (1 - chosen) - slope, slope};
}

PairGradient DiscoPop(const PairScores& pair, const PairLossOptions& how) {
  const Scores scores = ScoresOf(pair, how);
  const double x = how.beta * scores.delta(), mix = Sigmoid(x / how.discopop_tau);
  const double logistic = -LogSigmoid(x), exponential = std::exp(-x);
  const double slope =
      -Sigmoid(-x) * (1 - mix) - exponential * mix + (exponential - logistic) * mix * (1 - mix) / how.discopop_tau;
  return OfDelta(scores, {logistic * (1 - mix) + exponential * mix, how.beta * slope});
}

// CPO's: log-probabilities of the policy alone.
PairGradient OfDifference(const Slope& loss, double chosen_tokens = 1, double rejected_tokens = 1) {
  return {loss.value, loss.derivative / chosen_tokens, -loss.derivative / rejected_tokens};
}

double MeanDifference(const PairScores& pair) {
  return pair.chosen / static_cast<double>(pair.chosen_tokens) -
         pair.rejected / static_cast<double>(pair.rejected_tokens);
}

PairGradient CpoSigmoid(const PairScores& pair, const PairLossOptions& how) {
  return OfDifference(SmoothedSigmoid(pair.chosen - pair.rejected, how));
}

PairGradient CpoHinge(const PairScores& pair, const PairLossOptions& how) {
  return OfDifference(HingeOf(pair.chosen - pair.rejected, how));
}

PairGradient CpoIpo(const PairScores& pair, const PairLossOptions& how) {
  return OfDifference(SquareOf(MeanDifference(pair), 0.5 / how.beta), static_cast<double>(pair.chosen_tokens),
                      static_cast<double>(pair.rejected_tokens));
}

PairGradient SimPo(const PairScores& pair, const PairLossOptions& how) {
  return OfDifference(SmoothedSigmoid(MeanDifference(pair) - how.simpo_gamma / how.beta, how),
                      static_cast<double>(pair.chosen_tokens), static_cast<double>(pair.rejected_tokens));
}

constexpr PairLoss kDpoLosses[] = {
    {.name = "sigmoid", .function = SigmoidLoss, .diverges = true},
    {.name = "hinge", .function = Hinge, .diverges = true},
    {.name = "ipo", .function = Ipo, .diverges = true},
    {.name = "robust", .function = Robust, .diverges = true},
    {.name = "exo_pair", .function = ExoPair, .diverges = true},
    {.name = "nca_pair", .function = NcaPair},
    {.name = "bco_pair", .function = BcoPair},
    {.name = "sppo_hard", .function = SppoHard},
    {.name = "aot", .function = Aot, .sorts = true},
    {.name = "aot_unpaired", .function = AotUnpaired, .sorts = true},
    {.name = "apo_zero", .function = ApoZero},
    {.name = "apo_down", .function = ApoDown},
    {.name = "discopop", .function = DiscoPop, .diverges = true},
    {.name = "sigmoid_norm", .function = SigmoidNorm, .diverges = true},
};

constexpr PairLoss kCpoLosses[] = {
    {.name = "sigmoid", .function = CpoSigmoid},
    {.name = "hinge", .function = CpoHinge},
    {.name = "ipo", .function = CpoIpo, .means = true},
    {.name = "simpo", .function = SimPo, .means = true},
};

// p - log(1 - e^p) of a mean log-probability p below 0, and its derivative.
Slope LogOdds(double p) {
  const double log_rest = p < -std::log(2.0) ? std::log1p(-std::exp(p)) : std::log(-std::expm1(p));
  return {p - log_rest, 1 + std::exp(p - log_rest)};
}

}  // namespace

double LogSigmoid(double x) { return x < 0 ? x - std::log1p(std::exp(x)) : -std::log1p(std::exp(-x)); }
double Sigmoid(double x) { return x < 0 ? std::exp(x) / (1 + std::exp(x)) : 1 / (1 + std::exp(-x)); }

std::span<const PairLoss> DpoLosses() { return kDpoLosses; }
std::span<const PairLoss> CpoLosses() { return kCpoLosses; }

std::vector<std::string> NamesOf(std::span<const PairLoss> losses) {
  std::vector<std::string> names;
  for (const PairLoss& loss : losses) names.emplace_back(loss.name);
  return names;
}

OddsRatio OddsRatioLoss(const PairScores& pair, double beta) {
  const auto chosen_tokens = static_cast<double>(std::max<int64_t>(pair.chosen_tokens, 1));
  const auto rejected_tokens = static_cast<double>(std::max<int64_t>(pair.rejected_tokens, 1));
  const Slope chosen = LogOdds(pair.chosen / chosen_tokens), rejected = LogOdds(pair.rejected / rejected_tokens);
  const double log_odds = chosen.value - rejected.value, slope = -beta * Sigmoid(-log_odds);
  return {.loss = {-beta * LogSigmoid(log_odds), slope * chosen.derivative / chosen_tokens,
                   -slope * rejected.derivative / rejected_tokens},
          .log_odds = log_odds,
          .log_ratio = LogSigmoid(log_odds)};
}

}  // namespace trireme
