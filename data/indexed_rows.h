// Rows of a Megatron .bin: its documents, in an order drawn from the seed, form one long text, which is cut
// into rows of one length. Neighbouring rows share a token, so that every token but the very first is
// predicted once; a remainder that does not fill a row is not used. Any row can be found from its index
// alone.
#pragma once

#include <filesystem>
#include <vector>

#include "data/indexed_file.h"
#include "data/row_views.h"

namespace trireme {

struct IndexedOptions {
  int64_t length = 0;   // tokens of a row, at least 2
  bool isolate = true;  // documents of a row do not attend to each other
  bool shuffle = true;
  uint64_t seed = 0;
  std::vector<int> split = {};  // proportions of the documents, such as 969, 30, 1; empty: a single part
  int part = 0;                 // which of them
  int64_t vocabulary = 0;       // of the model; an id beyond it is an error, in the first row at once
};

Rows OpenIndexedRows(const std::filesystem::path& prefix, const IndexedOptions& options);

// Documents [first, last) of a part: each boundary is rounded to the nearest document.
struct DocumentRange {
  int64_t first = 0, last = 0;
};
DocumentRange PartOfDocuments(int64_t documents, const std::vector<int>& split, int part);

}  // namespace trireme
