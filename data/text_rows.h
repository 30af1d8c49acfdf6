// Rows of whole texts: one for each record, with all of its texts as documents and what the data says of them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/config.pb.h"
#include "data/row_store.h"
#include "data/row_views.h"

namespace trireme {

// Those of a store, in its order, that have no text of more than so many tokens.
Rows TextRows(std::shared_ptr<const RowStore> store, int64_t longest);
// How many it leaves out.
int64_t LongTextRows(const RowStore& store, int64_t longest);

// Rows of given token forms, one JSON object per line, as `trireme grads` takes them. Refuses, with file and line, what
// is none and ids outside [0, vocabulary).
std::vector<Row> ReadTextRows(const std::string& path, int64_t vocabulary, const Config& config);

}  // namespace trireme
