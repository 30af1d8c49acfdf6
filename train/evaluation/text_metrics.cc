#include "train/evaluation/text_metrics.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

namespace trireme {
namespace {

constexpr size_t kCutOff = 10;

double Discount(size_t place) { return 1 / std::log2(static_cast<double>(place) + 2); }

// Indices of the candidates, best first.
std::vector<size_t> Ranking(const RankedQuery& query) {
  std::vector<size_t> order(query.scores.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    if (query.scores[a] != query.scores[b]) return query.scores[a] > query.scores[b];
    return query.labels[a] < query.labels[b];
  });
  return order;
}

}  // namespace

void RankingMetrics::Add(const RankedQuery& query) {
  const auto relevant =
      static_cast<double>(std::ranges::count_if(query.labels, [](double label) { return label > 0; }));
  if (relevant == 0) return;
  const std::vector<size_t> order = Ranking(query);
  std::vector<double> best = query.labels;
  std::sort(best.begin(), best.end(), std::greater<>());
  double gain = 0, ideal = 0, reciprocal = 0, found = 0, first = 0;
  for (size_t place = 0; place < std::min(kCutOff, order.size()); ++place) {
    const double label = query.labels[order[place]];
    gain += label * Discount(place);
    ideal += best[place] * Discount(place);
    if (label <= 0) continue;
    if (reciprocal == 0) reciprocal = 1 / static_cast<double>(place + 1);
    found += 1;
    if (place == 0) first = 1;
  }
  ++queries_;
  sums_["ndcg@10"] += gain / ideal;
  sums_["mrr@10"] += reciprocal;
  sums_["recall@1"] += first / relevant;
  sums_["recall@10"] += found / relevant;
}

std::map<std::string, double> RankingMetrics::Take() const {
  std::map<std::string, double> means;
  for (const auto& [name, sum] : sums_) means[name] = sum / static_cast<double>(queries_);
  return means;
}

void LabelMetrics::Add(const std::vector<bool>& has, const std::vector<bool>& given) {
  ++texts_;
  exact_ += has == given;
  for (size_t label = 0; label < has.size(); ++label) {
    right_[label] += has[label] && given[label];
    said_[label] += given[label];
    true_[label] += has[label];
  }
}

std::map<std::string, double> LabelMetrics::Take() const {
  if (texts_ == 0) return {};
  double sum = 0;
  size_t labels = 0;
  for (size_t label = 0; label < right_.size(); ++label) {
    if (said_[label] + true_[label] == 0) continue;
    sum += 2 * static_cast<double>(right_[label]) / static_cast<double>(said_[label] + true_[label]);
    ++labels;
  }
  return {{"accuracy", static_cast<double>(exact_) / static_cast<double>(texts_)},
          {"f1", labels > 0 ? sum / static_cast<double>(labels) : 0}};
}

std::map<std::string, double> NumberMetrics(std::span<const double> predicted, std::span<const double> wanted) {
  const auto count = static_cast<double>(predicted.size());
  if (predicted.empty()) return {};
  double error = 0, mean_predicted = 0, mean_wanted = 0;
  for (size_t i = 0; i < predicted.size(); ++i) {
    error += (predicted[i] - wanted[i]) * (predicted[i] - wanted[i]) / count;
    mean_predicted += predicted[i] / count;
    mean_wanted += wanted[i] / count;
  }
  double both = 0, of_predicted = 0, of_wanted = 0;
  for (size_t i = 0; i < predicted.size(); ++i) {
    const double a = predicted[i] - mean_predicted, b = wanted[i] - mean_wanted;
    both += a * b;
    of_predicted += a * a;
    of_wanted += b * b;
  }
  std::map<std::string, double> metrics = {{"mse", error}};
  if (of_predicted > 0 && of_wanted > 0) metrics["pearson"] = both / std::sqrt(of_predicted * of_wanted);
  return metrics;
}

}  // namespace trireme
