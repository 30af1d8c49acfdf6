#include "data/stream_rows.h"

#include <algorithm>
#include <chrono>
#include <fstream>
#include <sstream>
#include <thread>
#include <utility>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/json.h"
#include "core/base/log.h"
#include "core/base/random.h"
#include "core/io/atomic_file.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kStepsKept = 3;  // a rank may prefetch one step ahead of another, which has not read the one before

bool EndsInsideALine(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return file.seekg(-1, std::ios::end) && file.get() != '\n';
}

}  // namespace

StreamRows::StreamRows(StreamOptions options, std::shared_ptr<const Preparer> preparer, RowsOfStore rows_of)
    : options_(std::move(options)), preparer_(std::move(preparer)), rows_of_(std::move(rows_of)) {}

StreamRows::~StreamRows() {
  if (coming_.valid()) coming_.wait();
  for (const Chunk& chunk : chunks_) Remove(chunk.start.chunk);
  Remove(next_.chunk);
}

int64_t StreamRows::Length(int64_t row) const {
  const std::lock_guard lock(mutex_);
  const Chunk& chunk = Find(row);
  return chunk.rows->Length(row - chunk.start.first_row);
}

int64_t StreamRows::Trained(int64_t row) const {
  const std::lock_guard lock(mutex_);
  const Chunk& chunk = Find(row);
  return chunk.rows->Trained(row - chunk.start.first_row);
}

Row StreamRows::Read(int64_t row) const {
  const std::lock_guard lock(mutex_);
  const Chunk& chunk = Find(row);
  return chunk.rows->Read(row - chunk.start.first_row);
}

const StreamRows::Chunk& StreamRows::Find(int64_t row) const {
  if (chunks_.empty() && next_.chunk == 0) JumpTo(row / options_.batch * options_.batch);
  while (chunks_.empty() || chunks_.back().end() <= row) Advance();
  Forget(row - kStepsKept * options_.batch);
  const auto found = std::ranges::find_if(chunks_, [&](const Chunk& chunk) { return row < chunk.end(); });
  if (row >= found->start.first_row) return *found;
  throw RuntimeError("row ", row, " of streamed data is no longer available");  // not a row of a recent step
}

// The first row of the step to begin with: the index knows where its chunk begins.
void StreamRows::JumpTo(int64_t row) const {
  if (!PathExists(options_.index)) return;
  std::istringstream lines(ReadTextFile(options_.index.string()));
  std::string line;
  std::getline(lines, line);
  if (TryParseJson(line) != Json({{"stream", options_.digest}})) {
    throw InputError(
        options_.index.string(), ": the data, or how it is read, has changed since this run began, so that its ",
        "position in the data would be lost; restore data.*, model.path and run.seed, or set another run.output");
  }
  while (std::getline(lines, line)) {
    const Json start = TryParseJson(line);
    if (!start.is_object()) continue;  // a run that was killed may have left a truncated line
    const Start known{
        start.at("chunk"), start.at("epoch"), start.at("first_row"), {start.at("file"), start.at("record")}};
    indexed_ = known.chunk;
    if (known.first_row <= row) next_ = known;
  }
}

void StreamRows::Advance() const {
  const Start start = next_;
  if (start.epoch > 0 && start.first_row == 0) {
    throw InputError("data.train: no record of ", options_.files.size(), " files makes a row to train on");
  }
  if (options_.works && !coming_.valid())
    coming_ = std::async(std::launch::async, [this, start] { return Make(start); });
  next_ = options_.works ? coming_.get() : StartAfter(start);
  chunks_.push_back({start, Open(start)});
  AddToIndex(start);
  if (!options_.works || next_.first_row >= options_.rows) return;
  coming_ = std::async(std::launch::async, [this, after = next_] { return Make(after); });
}

// Chunks that no rank reads any more.
void StreamRows::Forget(int64_t row) const {
  while (chunks_.size() > 1 && chunks_.front().end() <= row) {
    const int64_t chunk = chunks_.front().start.chunk;
    chunks_.pop_front();
    Remove(chunk);
  }
}

// The note first: where it is, the store is, too.
void StreamRows::Remove(int64_t chunk) const {
  if (!options_.works) return;
  std::error_code ignored;
  fs::remove(NoteOf(chunk), ignored);
  fs::remove(StoreOf(chunk), ignored);
}

void StreamRows::AddToIndex(const Start& start) const {
  if (!options_.reports || start.chunk <= indexed_ || !IsDirectory(options_.index.parent_path())) return;
  const bool is_new = !PathExists(options_.index);
  const bool is_torn = !is_new && EndsInsideALine(options_.index);
  std::ofstream index(options_.index, std::ios::app);
  if (is_new) index << JsonLine({{"stream", options_.digest}}) << "\n";
  if (is_torn) index << "\n";  // after half a line of a run that was killed
  index << JsonLine({{"chunk", start.chunk},
                     {"epoch", start.epoch},
                     {"first_row", start.first_row},
                     {"file", start.at.file},
                     {"record", start.at.record}})
        << "\n";
  if (!index.flush()) throw RuntimeError(options_.index.string(), ": cannot be written; is the disk full?");
  indexed_ = start.chunk;
}

Rows StreamRows::Open(const Start& start) const {
  Rows rows = rows_of_(std::make_shared<RowStore>(StoreOf(start.chunk)));
  if (!options_.shuffle) return rows;
  const std::string name = Concat("rows of chunk ", start.chunk);
  return TakeRows(rows, ShuffledOrder(rows->size(), {options_.seed, name}));
}

// Tokenizes the chunk, and returns where the next one begins.
StreamRows::Start StreamRows::Make(const Start& start) const {
  if (cursor_epoch_ != start.epoch || cursor_->position() != start.at) {
    cursor_ = std::make_unique<RecordCursor>(FilesOfEpoch(start.epoch), start.at);
    cursor_epoch_ = start.epoch;
  }
  const std::unique_ptr<RecordFile> records = cursor_->Take(options_.buffer);
  preparer_->PrepareRecords(*records, StoreOf(start.chunk));
  const int64_t rows = rows_of_(std::make_shared<RowStore>(StoreOf(start.chunk)))->size();
  Start next{start.chunk + 1, start.epoch, start.first_row + rows, cursor_->position()};
  if (cursor_->AtEnd()) next = {next.chunk, next.epoch + 1, next.first_row, {}};
  WriteAtomicFile(
      NoteOf(start.chunk),
      JsonLine(
          {{"epoch", next.epoch}, {"first_row", next.first_row}, {"file", next.at.file}, {"record", next.at.record}}));
  return next;
}

// What the process that tokenizes has noted. If that fails, it ends the whole job, including this wait.
StreamRows::Start StreamRows::StartAfter(const Start& start) const {
  while (!PathExists(NoteOf(start.chunk))) std::this_thread::sleep_for(std::chrono::milliseconds(20));
  const Json note = ReadJsonFile(NoteOf(start.chunk).string());
  return {start.chunk + 1, note.at("epoch"), note.at("first_row"), {note.at("file"), note.at("record")}};
}

std::vector<DataFile> StreamRows::FilesOfEpoch(int64_t epoch) const {
  if (!options_.shuffle) return options_.files;
  std::vector<DataFile> files;
  const auto count = static_cast<int64_t>(options_.files.size());
  for (const int64_t file : ShuffledOrder(count, {options_.seed, Concat("files of epoch ", epoch)})) {
    files.push_back(options_.files[file]);
  }
  return files;
}

fs::path StreamRows::StoreOf(int64_t chunk) const { return Concat(options_.chunks.string(), ".", chunk, ".rows"); }
fs::path StreamRows::NoteOf(int64_t chunk) const { return Concat(options_.chunks.string(), ".", chunk, ".next"); }

}  // namespace trireme
