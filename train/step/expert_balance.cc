#include "train/step/expert_balance.h"

#include <algorithm>
#include <cmath>
#include <iomanip>
#include <numeric>
#include <sstream>
#include <utility>

#include "core/base/error.h"

namespace trireme {
namespace {

enum Number { kTokens, kDropped, kEntropy, kBalanceLoss, kZLoss, kNumbers };  // after a layer's experts

struct Colour {
  int red, green, blue;
};

// White where an expert gets its even share, full red at four times that, full blue at a quarter.
Colour ColourOf(double share) {
  const double way = std::clamp(std::log2(std::max(share, 1e-9)) / 2, -1.0, 1.0);
  const auto fade = [&](int end) { return static_cast<int>(std::lround(255 + (end - 255) * std::abs(way))); };
  return way > 0 ? Colour{fade(178), fade(24), fade(43)} : Colour{fade(33), fade(102), fade(172)};
}

struct Busy {
  int rank = 0;
  double share = 0;  // relative to the mean over ranks with experts
};

// Least and most loaded; ranks without experts have 0, the others received + 1.
std::pair<Busy, Busy> Extremes(std::span<const float> ranks) {
  double sum = 0;
  int count = 0, least = -1, most = -1;
  for (int rank = 0; rank < static_cast<int>(ranks.size()); ++rank) {
    if (ranks[rank] == 0) continue;
    sum += ranks[rank] - 1;
    ++count;
    if (least < 0 || ranks[rank] < ranks[least]) least = rank;
    if (most < 0 || ranks[rank] > ranks[most]) most = rank;
  }
  const double mean = count > 0 && sum > 0 ? sum / count : 1;
  const auto busy = [&](int rank) { return rank < 0 ? Busy{} : Busy{rank, (ranks[rank] - 1) / mean}; };
  return {busy(least), busy(most)};
}

}  // namespace

std::vector<ExpertLayer> ExpertLayers(const LayerGraph& graph) {
  std::vector<ExpertLayer> layers;
  for (const Layer& layer : graph.layers) {
    const DecoderSpec* decoder = DecoderOf(layer.spec);
    if (decoder == nullptr || !decoder->experts) continue;
    layers.push_back({layer.name, decoder->experts->router.experts});
  }
  return layers;
}

ExpertBalance::ExpertBalance(std::vector<ExpertLayer> layers, int world) : layers_(std::move(layers)) {
  for (const ExpertLayer& layer : layers_) {
    begins_.push_back(ranks_begin_);
    ranks_begin_ += static_cast<size_t>(layer.experts) + kNumbers;
  }
  flat_.resize(ranks_begin_ + static_cast<size_t>(world));
}

size_t ExpertBalance::Begin(const std::string& layer) const {
  const auto found =
      std::find_if(layers_.begin(), layers_.end(), [&](const ExpertLayer& one) { return one.name == layer; });
  TRIREME_CHECK(found != layers_.end()) << "layer " << layer << " has no experts";
  return begins_[static_cast<size_t>(found - layers_.begin())];
}

void ExpertBalance::Add(const std::string& layer, const LayerBalance& sums) {
  const size_t begin = Begin(layer), experts = RowsOf(layer).size();
  TRIREME_CHECK(sums.rows.empty() || sums.rows.size() == experts);
  for (size_t i = 0; i < sums.rows.size(); ++i) flat_[begin + i] += static_cast<float>(sums.rows[i]);
  const double numbers[kNumbers] = {sums.tokens, sums.dropped, sums.entropy, sums.balance_loss, sums.z_loss};
  for (size_t i = 0; i < kNumbers; ++i) flat_[begin + experts + i] += static_cast<float>(numbers[i]);
}

void ExpertBalance::Join(const ExpertBalance& step) {
  if (empty()) {
    *this = step;
    return;
  }
  for (size_t i = 0; i < flat_.size(); ++i) flat_[i] += step.flat_[i];
}

std::vector<float> ExpertBalance::RowsOf(const std::string& layer) const {
  const size_t index = static_cast<size_t>(std::find(begins_.begin(), begins_.end(), Begin(layer)) - begins_.begin());
  const auto begin = flat_.begin() + static_cast<std::ptrdiff_t>(begins_[index]);
  return {begin, begin + layers_[index].experts};
}

double ExpertBalance::SumOf(int number) const {
  double sum = 0;
  for (size_t i = 0; i < layers_.size(); ++i) {
    sum += flat_[begins_[i] + static_cast<size_t>(layers_[i].experts) + static_cast<size_t>(number)];
  }
  return sum;
}

double ExpertBalance::drop_rate() const {
  double rows = 0;
  for (const ExpertLayer& layer : layers_) {
    const std::vector<float> own = RowsOf(layer.name);
    rows = std::accumulate(own.begin(), own.end(), rows);
  }
  const double dropped = SumOf(kDropped);
  return rows + dropped > 0 ? dropped / (rows + dropped) : 0;
}

double ExpertBalance::entropy() const { return SumOf(kEntropy) / std::max(SumOf(kTokens), 1.0); }
double ExpertBalance::balance_loss() const { return SumOf(kBalanceLoss); }
double ExpertBalance::z_loss() const { return SumOf(kZLoss); }

Json ExpertBalance::ToJson() const {
  const auto [idle, busy] = Extremes(std::span(flat_).subspan(ranks_begin_));
  Json tokens = Json::object();
  for (const ExpertLayer& layer : layers_) {
    const std::vector<float> rows = RowsOf(layer.name);
    tokens[layer.name] = std::vector<int64_t>(rows.begin(), rows.end());
  }
  return {{"balance_loss", balance_loss()}, {"z_loss", z_loss()},        {"drop_rate", drop_rate()},
          {"entropy", entropy()},           {"busiest_rank", busy.rank}, {"busiest_load", busy.share},
          {"idlest_rank", idle.rank},       {"idlest_load", idle.share}, {"tokens_per_expert", tokens}};
}

std::string ExpertBalance::HeatMap() const {
  constexpr double kLeft = 90, kTop = 58, kRow = 16, kMost = 900;
  int64_t widest = 1;
  for (const ExpertLayer& layer : layers_) widest = std::max(widest, layer.experts);
  const double cell = std::clamp(kMost / static_cast<double>(widest), 3.0, 24.0);
  const double width = std::max(kLeft + cell * static_cast<double>(widest) + 20, 760.0);
  std::ostringstream svg;
  svg << std::setprecision(4) << "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" << width << "\" height=\""
      << kTop + kRow * static_cast<double>(layers_.size()) + 16 << "\" font-family=\"sans-serif\" font-size=\"11\">\n"
      << "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
      << "<text x=\"12\" y=\"20\" font-size=\"14\">Tokens per expert</text>\n"
      << "<text x=\"12\" y=\"38\">one row per layer, one cell per expert; white: an even share, red: "
         "up to "
         "four times as many, blue: down to a quarter</text>\n";
  double y = kTop;
  for (const ExpertLayer& layer : layers_) {
    const std::vector<float> rows = RowsOf(layer.name);
    const double mean =
        std::max(std::accumulate(rows.begin(), rows.end(), 0.0) / static_cast<double>(rows.size()), 1e-9);
    svg << "<text x=\"12\" y=\"" << y + 12 << "\">" << layer.name << "</text>\n";
    for (size_t expert = 0; expert < rows.size(); ++expert) {
      const Colour colour = ColourOf(rows[expert] / mean);
      svg << "<rect x=\"" << kLeft + cell * static_cast<double>(expert) << "\" y=\"" << y << "\" width=\"" << cell
          << "\" height=\"" << kRow << "\" fill=\"rgb(" << colour.red << "," << colour.green << "," << colour.blue
          << ")\" stroke=\"#ddd\" stroke-width=\"0.5\"><title>" << layer.name << ", expert " << expert << ": "
          << static_cast<int64_t>(rows[expert]) << " tokens</title></rect>\n";
    }
    y += kRow;
  }
  svg << "</svg>\n";
  return svg.str();
}

}  // namespace trireme
