#include "stages/retrieval_check.h"

#include <algorithm>
#include <vector>

#include "core/base/error.h"
#include "core/base/text.h"

namespace trireme {
namespace {

// As an evaluation logs them, without eval_.
std::vector<std::string> MetricsOf(const Config& config) {
  const RetrievalConfig& keys = config.retrieval();
  switch (config.stage()) {
    case STAGE_EMBEDDING:
      if (keys.loss() == EMBEDDING_LOSS_COSINE) return {"mse", "pearson"};
      if (keys.loss() != EMBEDDING_LOSS_INFONCE) return {"pearson"};
      return {"ndcg@10", "mrr@10", "recall@1", "recall@10"};
    case STAGE_RERANKER:
      return {"ndcg@10", "mrr@10", "recall@1", "recall@10"};
    case STAGE_CLASSIFICATION:
      if (keys.problem() == PROBLEM_REGRESSION) return {"mse", "pearson"};
      return {"accuracy", "f1"};
    default:
      return {};
  }
}

void CheckMetric(const Config& config) {
  const std::string& metric = config.eval().metric();
  const std::vector<std::string> known = MetricsOf(config);
  if (metric.empty() || std::ranges::find(known, metric) != known.end()) return;
  throw InputError("eval.metric = ", metric, ": evaluations of this run log ", Join(known),
                   "; write one of them, or leave it out for the loss");
}

void CheckMatryoshka(const RetrievalConfig& keys) {
  if (keys.matryoshka_weights_size() > 0 && keys.matryoshka_weights_size() != keys.matryoshka_size()) {
    throw InputError("retrieval.matryoshka_weights has ", keys.matryoshka_weights_size(), " numbers for ",
                     keys.matryoshka_size(), " sizes in retrieval.matryoshka; wanted one each, or none");
  }
}

void CheckTemplate(const RetrievalConfig& keys) {
  const std::string& text = keys.pair_template();
  if (text.empty()) return;
  for (const char* part : {"{query}", "{document}"}) {
    if (text.find(part) == std::string::npos) {
      throw InputError("retrieval.pair_template has no ", part, ": '", text.substr(0, 60), "'; put both into it");
    }
  }
}

void CheckGenerative(const RetrievalConfig& keys) {
  if (!keys.generative()) return;
  if (keys.pooling() != POOLING_LAST) {
    throw InputError("retrieval.generative: true takes the token after the last one; write retrieval.pooling: last");
  }
  if (keys.positive_token() == keys.negative_token()) {
    throw InputError("retrieval.positive_token and retrieval.negative_token are both '", keys.positive_token(),
                     "'; name two tokens");
  }
}

}  // namespace

bool IsGenerative(const Config& config) { return config.stage() == STAGE_RERANKER && config.retrieval().generative(); }

int64_t TextsPerRecord(const Config& config) {
  if (config.stage() == STAGE_CLASSIFICATION) return 1;
  const int64_t negatives = config.retrieval().hard_negatives();
  if (config.stage() == STAGE_EMBEDDING) return 2 + negatives;
  return config.stage() == STAGE_RERANKER ? 1 + negatives : 1;
}

HeadKind HeadOf(const Config& config) { return IsGenerative(config) ? HeadKind::kLogits : FactsOf(config).head; }

std::string RetrievalMetric(const Config& config) {
  return TrainsTexts(FactsOf(config)) && config.eval().metric() != "mse" ? config.eval().metric() : "";
}

void CheckRetrieval(const Config& config) {
  if (!TrainsTexts(FactsOf(config))) return;
  CheckMetric(config);
  CheckMatryoshka(config.retrieval());
  CheckTemplate(config.retrieval());
  if (config.stage() == STAGE_RERANKER) CheckGenerative(config.retrieval());
  if (config.data().packing()) {
    throw InputError("data.packing: true: a record of stage ", FactsOf(config).name,
                     " is a row of its own, with all of its texts; leave it out");
  }
  if (config.data().over_length() == OVER_LENGTH_SPLIT) {
    throw InputError("data.over_length: split would part texts; write drop or truncate");
  }
}

}  // namespace trireme
