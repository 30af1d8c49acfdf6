// Units of preference training as rows: both sides of a pair in one row of two documents, or a single answer in one. A
// row is never parted, so neither is a pair, on any rank, in any micro batch, however rows are packed.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/config.pb.h"
#include "data/row_store.h"
#include "data/row_views.h"

namespace trireme {

struct AnswerOptions {
  bool pairs = true;          // two rows of the store are one
  int64_t longest = 0;        // tokens of a side; 0: any number
  bool truncate = false;      // longer sides are cut at their ends; otherwise their pair is left out
  double ld_alpha = 1;        // what tokens beyond the shorter side count in a pair
  bool share_prompt = false;  // of a pair the prompt stands in the row once
  bool learn_prompt = false;  // the chosen side's prompt is learnt, too, and counts nothing in its comparison
  int64_t placeholder = -1;   // the token of images, of which nothing is learnt; -1: none, the model does not see
};
AnswerOptions AnswerOptionsOf(const Config& config);
// What routers and their losses count does not change by computing a shared prompt once instead of several times.
bool CountsNoTokens(const ExpertsConfig& experts);

// The row of one unit, from the rows of its sides.
Row JoinAnswers(std::vector<Row> sides, const AnswerOptions& options);

// Those of a store, in its order.
Rows AnswerRows(std::shared_ptr<const RowStore> store, const AnswerOptions& options);
// How many units a store has, and how many of them have a side that is too long.
int64_t UnitsOf(const RowStore& store, const AnswerOptions& options);
int64_t LongUnitsOf(const RowStore& store, const AnswerOptions& options);

// Units of given token forms, one JSON object per line, as `trireme grads` takes them. Refuses, with file and line,
// what is none and ids outside [0, vocabulary). `images`: of a model that sees, whose prompts may have images
// (row_images.h); nullptr: it does not.
std::vector<Row> ReadAnswerRows(const std::string& path, int64_t vocabulary, const Config& config,
                                const ImageInputs* images = nullptr);

}  // namespace trireme
