// What evaluations of vectors, scores and labels of texts measure: rankings of documents (nDCG, MRR, recall), labels
// (accuracy, macro F1), numbers (mean squared error, Pearson's correlation). Plain numbers; no torch.
#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace trireme {

// The candidates of one query.
struct RankedQuery {
  std::vector<double> scores;
  std::vector<double> labels;  // how relevant each is; above 0: it is
};

class RankingMetrics {
 public:
  // A query without relevant candidates tells nothing. Irrelevant candidates with the score of a relevant one stand
  // before it.
  void Add(const RankedQuery& query);
  // ndcg@10, mrr@10, recall@1, recall@10: means over the queries; empty if there were none.
  std::map<std::string, double> Take() const;

 private:
  std::map<std::string, double> sums_;
  size_t queries_ = 0;
};

class LabelMetrics {
 public:
  explicit LabelMetrics(size_t labels) : right_(labels, 0), said_(labels, 0), true_(labels, 0) {}

  // Which labels a text has, and which it was given; one each, or any number.
  void Add(const std::vector<bool>& has, const std::vector<bool>& given);
  // accuracy: the fraction of texts whose labels are all right; f1: the mean over the labels that a text has, or was
  // given.
  std::map<std::string, double> Take() const;

 private:
  std::vector<size_t> right_, said_, true_;  // by label
  size_t texts_ = 0, exact_ = 0;
};

// mse, and pearson where both have some variance.
std::map<std::string, double> NumberMetrics(std::span<const double> predicted, std::span<const double> wanted);

}  // namespace trireme
