// Losses of vectors against loops over plain numbers, and their gradients against differences.
#include "parallel/objectives/vector_losses.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

namespace trireme {
namespace {

constexpr int64_t kSize = 6;

// Three records: an anchor with a positive and two negatives, one with a positive alone, one with one negative.
TextBatch Batch() {
  TextBatch batch{.firsts = {0, 4, 6, 9}, .values = {0, 1, 0, 0, 0, 1, 0, 1, 0}};
  for (uint64_t i = 0; i < 9; ++i) batch.contents.push_back(i);
  return batch;
}

at::Tensor Vectors() {
  at::manual_seed(7);
  return at::randn({9, kSize}, at::kFloat);
}

double Cosine(const at::Tensor& vectors, int64_t a, int64_t b, int64_t size = kSize) {
  const at::Tensor x = vectors[a].narrow(0, 0, size).to(at::kDouble), y = vectors[b].narrow(0, 0, size).to(at::kDouble);
  return ((x * y).sum() / (x.norm() * y.norm())).item<double>();
}

constexpr int64_t kAnchors[] = {0, 4, 6}, kPositives[] = {1, 5, 7};
constexpr int64_t kDocuments[] = {1, 2, 3, 5, 7, 8}, kOwners[] = {0, 0, 0, 1, 2, 2};

// keeps: whether a document counts for a record beside its positive.
double InfoNceByLoop(const at::Tensor& vectors, double temperature,
                     const std::function<bool(int64_t record, int64_t document, int64_t owner)>& keeps,
                     bool query_query = false, bool document_document = false, int64_t size = kSize) {
  double loss = 0;
  for (int64_t record = 0; record < 3; ++record) {
    const double positive = Cosine(vectors, kAnchors[record], kPositives[record], size) / temperature;
    double sum = 0;
    for (size_t d = 0; d < std::size(kDocuments); ++d) {
      const bool is_positive = kDocuments[d] == kPositives[record];
      if (!is_positive && !keeps(record, kDocuments[d], kOwners[d])) continue;
      sum += std::exp(Cosine(vectors, kAnchors[record], kDocuments[d], size) / temperature);
    }
    for (int64_t other = 0; other < 3 && query_query; ++other) {
      if (other != record) sum += std::exp(Cosine(vectors, kAnchors[record], kAnchors[other], size) / temperature);
    }
    for (size_t d = 0; d < std::size(kDocuments) && document_document; ++d) {
      if (kDocuments[d] == kPositives[record]) continue;
      sum += std::exp(Cosine(vectors, kPositives[record], kDocuments[d], size) / temperature);
    }
    loss += (std::log(sum) - positive) / 3;
  }
  return loss;
}

void ExpectLoss(const TextBatch& batch, const TextLossOptions& options, double wanted, const char* what) {
  const at::Tensor vectors = Vectors();
  const DifferentiatedVectors found = LossOfVectors(vectors, batch, options, /*differentiate=*/true);
  EXPECT_NEAR(found.loss, wanted, 1e-5) << what;
  EXPECT_NEAR(LossOfVectors(vectors, batch, options, /*differentiate=*/false).loss, wanted, 1e-5) << what;
  // Along a direction.
  const at::Tensor direction = at::randn_like(vectors) / 8;
  constexpr double kStep = 2e-3;
  const double above = LossOfVectors(vectors + kStep * direction, batch, options, false).loss;
  const double below = LossOfVectors(vectors - kStep * direction, batch, options, false).loss;
  EXPECT_NEAR((found.by_vector * direction).sum().item<double>(), (above - below) / (2 * kStep), 2e-3) << what;
}

TEST(VectorLosses, InfoNceTellsAPositiveFromAllDocumentsOfTheBatch) {
  const at::Tensor v = Vectors();
  const auto all = [](int64_t, int64_t, int64_t) { return true; };
  const auto own = [](int64_t record, int64_t, int64_t owner) { return record == owner; };
  ExpectLoss(Batch(), {.temperature = 0.5}, InfoNceByLoop(v, 0.5, all), "in the batch");
  ExpectLoss(Batch(), {.temperature = 0.5, .in_batch = false}, InfoNceByLoop(v, 0.5, own), "its own");
  ExpectLoss(Batch(), {.temperature = 0.5, .query_query = true}, InfoNceByLoop(v, 0.5, all, true), "queries");
  ExpectLoss(Batch(), {.temperature = 0.5, .query_query = true, .document_document = true},
             InfoNceByLoop(v, 0.5, all, true, true), "queries and documents");
}

TEST(VectorLosses, FalseNegativesAreLeftOut) {
  const at::Tensor v = Vectors();
  const auto near = [&](double margin) {
    return [&v, margin](int64_t record, int64_t document, int64_t) {
      return Cosine(v, kAnchors[record], document) <= Cosine(v, kAnchors[record], kPositives[record]) + margin;
    };
  };
  const auto all = [](int64_t, int64_t, int64_t) { return true; };
  const double masked = InfoNceByLoop(v, 0.5, near(0.05));
  ASSERT_NE(masked, InfoNceByLoop(v, 0.5, all)) << "nothing is nearer than a positive: the case shows nothing";
  ExpectLoss(Batch(), {.temperature = 0.5, .mask_false_negatives = true, .false_negative_margin = 0.05}, masked,
             "nearer");
  TextBatch equal = Batch();
  equal.contents[5] = equal.contents[1];  // the second record's positive is the first one's, too
  const auto other = [](int64_t record, int64_t document, int64_t) {
    return !(record == 0 && document == 5) && !(record == 1 && document == 1);
  };
  ExpectLoss(equal, {.temperature = 0.5, .mask_false_negatives = true, .false_negative_margin = 9},
             InfoNceByLoop(v, 0.5, other), "equal");
}

TEST(VectorLosses, MatryoshkaSumsOverSizes) {
  const at::Tensor v = Vectors();
  const auto all = [](int64_t, int64_t, int64_t) { return true; };
  const double wanted = 0.5 * InfoNceByLoop(v, 0.5, all, false, false, 4) + 2 * InfoNceByLoop(v, 0.5, all);
  ExpectLoss(Batch(), {.temperature = 0.5, .matryoshka = {4, kSize}, .matryoshka_weights = {0.5, 2}}, wanted, "sizes");
}

TEST(VectorLosses, OfPairsWithScores) {
  const at::Tensor v = Vectors();
  TextBatch batch = Batch();
  std::vector<double> cosines, values, distances;
  for (size_t d = 0; d < std::size(kDocuments); ++d) {
    cosines.push_back(Cosine(v, kAnchors[kOwners[d]], kDocuments[d]));
    values.push_back(batch.values[static_cast<size_t>(kDocuments[d])]);
    distances.push_back(1 - cosines.back());
  }
  double square = 0, contrast = 0, ordered = 1;
  for (size_t i = 0; i < cosines.size(); ++i) {
    square += std::pow(cosines[i] - values[i], 2) / static_cast<double>(cosines.size());
    const double apart = std::max(0.0, 0.9 - distances[i]);
    contrast += (values[i] * distances[i] * distances[i] + (1 - values[i]) * apart * apart) / 2 /
                static_cast<double>(cosines.size());
    for (size_t j = 0; j < cosines.size(); ++j) {
      if (values[i] < values[j]) ordered += std::exp((cosines[i] - cosines[j]) / 0.5);
    }
  }
  double farthest = 0, nearest = 9, online = 0;
  for (size_t i = 0; i < cosines.size(); ++i) {
    if (values[i] > 0.5) farthest = std::max(farthest, distances[i]);
    if (values[i] < 0.5) nearest = std::min(nearest, distances[i]);
  }
  for (size_t i = 0; i < cosines.size(); ++i) {
    if (values[i] > 0.5 && distances[i] > nearest) online += distances[i] * distances[i];
    if (values[i] < 0.5 && distances[i] < farthest) online += std::pow(std::max(0.0, 0.9 - distances[i]), 2);
  }
  ExpectLoss(batch, {.loss = VectorLoss::kCosine}, square, "cosine similarity");
  ExpectLoss(batch, {.loss = VectorLoss::kCosent, .temperature = 0.5}, std::log(ordered), "cosent");
  ExpectLoss(batch, {.loss = VectorLoss::kContrastive, .margin = 0.9}, contrast, "contrastive");
  ExpectLoss(batch, {.loss = VectorLoss::kOnlineContrastive, .margin = 0.9}, online, "online contrastive");
}

TEST(VectorLosses, EvaluationsRankByCosines) {
  const at::Tensor v = Vectors(), cosines = CosinesOf(v, Batch());
  ASSERT_EQ(cosines.sizes(), (at::IntArrayRef{3, 6}));
  EXPECT_NEAR(cosines[1][4].item<double>(), Cosine(v, 4, 7), 1e-5);
}

}  // namespace
}  // namespace trireme
