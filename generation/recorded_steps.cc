#include "generation/recorded_steps.h"

#include <ATen/ATen.h>
#include <glog/logging.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <variant>

#include "core/base/rounding.h"
#include "core/cuda/cuda.h"
#include "core/tensor/device_copies.h"
#include "ops/attention/decode_attention.h"
#include "ops/cuda/launch.h"
#include "parallel/graph/rope.h"
#include "session/session.h"

namespace trireme {
namespace {

constexpr size_t kMostRecordings = 64;  // each holds its logits

// So that a row that grows is recorded anew rarely, and launches are not much wider than it needs.
int64_t ColumnsFor(const PagedRows& rows) {
  int64_t columns = 1;
  for (const PagedRow& row : rows.rows) columns = std::max(columns, row.past / rows.block_size + 1);
  const auto step = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(std::max<int64_t>(columns / 4, 8))));
  return RoundUp(columns, step);
}

int64_t TableWords(int64_t rows, int64_t columns) { return (rows * (1 + columns) + 1) / 2; }

// As Prepare lays them out: tokens, positions, slots, table.
at::Tensor PlacesOf(const StepPass& pass, int64_t columns) {
  const auto rows = std::ssize(pass.rows.rows);
  const at::Tensor places = at::zeros({3 * rows + TableWords(rows, columns)}, at::kLong);
  auto* next = places.data_ptr<int64_t>();
  for (const at::Tensor& each : {pass.input.tokens, pass.input.positions})
    next = std::copy_n(each.data_ptr<int64_t>(), rows, next);
  for (const PagedRow& row : pass.rows.rows) {
    const int64_t block = row.blocks.at(static_cast<size_t>(row.past / pass.rows.block_size));
    *next++ = block * pass.rows.block_size + row.past % pass.rows.block_size;
  }
  const at::Tensor table = DecodeTable(pass.rows.rows, columns);
  std::memcpy(next, table.data_ptr(), table.nbytes());
  return places;
}

std::string WhyNotLayer(const Layer& layer) {
  const auto* decoder = std::get_if<DecoderSpec>(&layer.spec);
  if (decoder == nullptr) return "";
  if (decoder->experts) return "experts wait for the rows of their tokens";
  if (decoder->attention.delta) return "states of Gated DeltaNet are found by row on the host";
  if (decoder->attention.latent) return "latent attention copies its cache out of its blocks";
  if (decoder->attention.soft_cap > 0) return "attention with a soft cap copies its cache out of its blocks";
  if (LengthLimit(decoder->attention.rope) > 0) return "the rotary embedding depends on the lengths of rows";
  if (decoder->attention.sinks) return "attention with sinks copies its cache out of its blocks";
  const int64_t dim = decoder->attention.head_dim;
  return dim == 64 || dim == 128 || dim == 256 ? "" : "no kernel reads the cache in place for heads of this size";
}

}  // namespace

std::string RecordedSteps::WhyNot(const Session& session) {
  if (!session.tensors().torch().is_cuda()) return "only a GPU replays launches";
  if (session.plan().placement.stages() > 1 || session.groups().Get("tp").size() > 1)
    return "several ranks compute a row";
  if (session.config().parallel().zero() == 3) return "weights are gathered in the pass";
  if (std::string why = WhyNoCudaKernel(at::empty({0}, at::dtype(at::kFloat).device(session.tensors().torch())));
      !why.empty()) {
    return why;
  }
  for (const Layer& layer : session.graph().layers) {
    if (std::string why = WhyNotLayer(layer); !why.empty()) return why;
  }
  return "";
}

bool RecordedSteps::Takes(const StepPass& pass) const {
  const auto rows = std::ssize(pass.rows.rows);
  const auto single = [](const PagedRow& row) { return row.fresh == 1; };
  return !failed_ && rows > 0 && pass.adapters == nullptr && !pass.input.images.token_of.defined() &&
         pass.input.length == rows && pass.wanted.size(0) == rows && std::ranges::all_of(pass.rows.rows, single);
}

at::Tensor RecordedSteps::Logits(const StepPass& pass) {
  // A cache that has grown has moved.
  if (std::exchange(blocks_, pass.rows.blocks) != pass.rows.blocks) recordings_.clear();
  const auto rows = std::ssize(pass.rows.rows);
  const int64_t columns = ColumnsFor(pass.rows);
  if (recordings_.size() >= kMostRecordings && !recordings_.contains({rows, columns})) recordings_.clear();
  Recording& recording = recordings_[{rows, columns}];
  if (!recording.places.defined()) Prepare(recording, rows, columns);
  UploadInto(PlacesOf(pass, columns), recording.places);
  if (recording.computed && recording.graph == nullptr && !failed_) Record(recording, pass.rows, columns);
  if (recording.graph != nullptr) {
    recording.graph->Replay();
  } else {
    Compute(recording, pass.rows, columns);
    recording.computed = true;
  }
  return recording.batch->result().outputs[0].logits;
}

void RecordedSteps::Prepare(Recording& recording, int64_t rows, int64_t columns) const {
  const at::TensorOptions options = at::dtype(at::kLong).device(session_.tensors().torch());
  recording.places = at::empty({3 * rows + TableWords(rows, columns)}, options);
  recording.input.rows = 1;
  recording.input.length = rows;
  recording.input.tokens = recording.places.narrow(0, 0, rows);
  recording.input.positions = recording.places.narrow(0, rows, rows);
  recording.input.real = at::ones({rows}, options.dtype(at::kBool));
  recording.slots = recording.places.narrow(0, 2 * rows, rows);
  recording.table = recording.places.narrow(0, 3 * rows, TableWords(rows, columns)).view(at::kInt);
  recording.objective = std::make_unique<NextTokenLogits>(at::arange(rows, options));
}

void RecordedSteps::Compute(Recording& recording, const PagedRows& rows, int64_t columns) {
  recording.batch = std::make_unique<PassBatch>(
      std::vector<PassInput>{recording.input},
      PassOptions{.objective = recording.objective.get(), .differentiate = false, .cache = &cache_});
  PagedRows whole = rows;
  whole.most_keys = columns * rows.block_size;
  cache_.BeginAt(std::move(whole), recording.table, recording.slots);
  session_.model().SetBatches(*recording.batch);
  session_.model().chunks().at(0)->Forward(0, at::Tensor());
}

void RecordedSteps::Record(Recording& recording, const PagedRows& rows, int64_t columns) {
  try {
    recording.graph = Cuda::Open().bridge().Record([&] { Compute(recording, rows, columns); });
  } catch (const std::exception& error) {
    failed_ = true;
    const std::string said = error.what();
    LOG(WARNING) << "decoding steps are launched one by one, because they could not be recorded: "
                 << said.substr(0, said.find('\n'));
  }
}

}  // namespace trireme
