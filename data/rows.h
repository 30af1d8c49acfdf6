// Rows of token ids with labels, and where they come from: anything that has a number of rows and returns one
// by its index. Labels are not shifted, -100 is not trained, as in Hugging Face. No tensors.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/base/image_grid.h"
#include "parallel/graph/costs.h"
#include "parallel/graph/specs.h"
#include "parallel/pass/image_positions.h"

namespace trireme {

// An image that some of a row's tokens stand for.
struct RowImage {
  std::string source;  // a path, or a data: URL
  ImageGrid grid = {};
  int64_t first = 0;  // the index of its first token
  bool operator==(const RowImage&) const = default;
};

struct Row {
  std::vector<int64_t> input_ids;
  std::vector<int64_t> labels;
  // Where each document of a packed row begins, the first at 0; empty: the row is one document. Documents do
  // not attend to each other, and no label is trained across a boundary.
  std::vector<int64_t> starts = {};
  // Of each document: how many tokens at the beginning of the last document before it that shares nothing are its own
  // beginning, too, and are not repeated in the row: the prompt that answers share; empty: none.
  std::vector<int64_t> shared = {};
  // By label, for objectives that weigh each token: what its log-probability counts, there or in its
  // answer's; empty: the data has none.
  std::vector<float> weights = {};
  // Per document: the sample of the row that it belongs to, from 0 (both sides of a pair, all of a group);
  // empty: each is a separate sample.
  std::vector<int64_t> samples = {};
  // By label: its log-probability when it was sampled; empty: it was not, or nothing is known of it.
  std::vector<float> sampled = {};
  // Of each document: what the data says of it as an answer (its label, its pair's margin, its advantage); empty: it is
  // none.
  std::vector<float> values = {};
  // Of each document that is an answer: how many of its labels are the answer's own, not its prompt's.
  std::vector<int64_t> answer_tokens = {};
  // The row's images, in the order of their placeholder tokens, and the patches of all of them, one after another:
  // [patches, elements of a patch].
  std::vector<ImageGrid> grids = {};
  std::shared_ptr<const std::vector<float>> patches = {};
  std::vector<RowImage> images =
      {};  // where they come from; patches are theirs once a source with ImageRows has read the row
};

struct ImageInputs;  // parallel/graph/graph.h

// Rows by index, the same on every rank. Only Read touches a row's tokens.
class RowSource {
 public:
  virtual ~RowSource() = default;
  virtual int64_t size() const = 0;
  virtual int64_t Length(int64_t row) const = 0;
  // Predicted tokens: labels after the first position of their document that are not -100.
  virtual int64_t Trained(int64_t row) const = 0;
  virtual Row Read(int64_t row) const = 0;
  // What the row costs depends on these; known without its tokens and pixels. A source that cannot tell documents apart
  // has one.
  virtual RowExtent Extent(int64_t row) const { return {.documents = {Length(row)}}; }
  // Reading a row is work (images are decoded) and may be done on several threads at once.
  virtual bool ReadingIsWork() const { return false; }
};

// Rows in memory.
class RowList : public RowSource {
 public:
  explicit RowList(std::vector<Row> rows) : rows_(std::move(rows)) {}
  int64_t size() const override { return static_cast<int64_t>(rows_.size()); }
  int64_t Length(int64_t row) const override { return static_cast<int64_t>(rows_[row].input_ids.size()); }
  int64_t Trained(int64_t row) const override;
  Row Read(int64_t row) const override { return rows_[row]; }
  RowExtent Extent(int64_t row) const override;

 private:
  std::vector<Row> rows_;
};

// One {"input_ids": […], "labels": […]} per line, with optional "starts", "weights" and "samples". Rejects,
// with file and line, what is not a row, an empty one, an unknown key, an id outside [0, vocabulary), and weights on
// some rows only. `images`: of a model that sees, whose rows may have patches of images (row_images.h); nullptr: it
// does not.
std::vector<Row> ReadRows(const std::string& path, int64_t vocabulary, const ImageInputs* images = nullptr);

// One {"input_ids": […]} per line, and images as above; labels and the like are not read; rejected as above. Rows
// without labels.
std::vector<Row> ReadPrompts(const std::string& path, int64_t vocabulary, const ImageInputs* images = nullptr);

// 0, 1, 2 and so on: all of them, in their order.
std::vector<int64_t> AllRows(const RowSource& rows);

int64_t CountTrained(const Row& row);
int64_t CountTrained(const std::vector<Row>& rows);

}  // namespace trireme
