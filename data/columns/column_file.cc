// Implements column_file.h with Arrow's libraries: Parquet by row groups, of which the last few are in memory, and
// Arrow's IPC format, as a file or as a stream (which `datasets` writes), mapped.
#include "data/columns/column_file.h"

#include <arrow/io/file.h>
#include <arrow/ipc/reader.h>
#include <arrow/record_batch.h>
#include <arrow/table.h>
#include <parquet/arrow/reader.h>
#include <parquet/file_reader.h>
#include <parquet/metadata.h>
#include <parquet/properties.h>

#include <algorithm>
#include <deque>
#include <exception>
#include <fstream>
#include <limits>
#include <mutex>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "core/base/utf8.h"
#include "data/columns/row_json.h"

namespace trireme {
namespace {

using Batch = std::shared_ptr<arrow::RecordBatch>;

constexpr size_t kGroupsInMemory =
    3;  // rows are read in order by several threads, which may be on both sides of a boundary

void Need(const arrow::Status& status) {
  if (!status.ok()) throw std::runtime_error(status.message());
}

template <typename Value>
Value Need(arrow::Result<Value> result) {
  Need(result.status());
  return std::move(result).ValueUnsafe();
}

// JSON's keys are UTF-8.
void CheckNames(const arrow::FieldVector& fields) {
  for (size_t i = 0; i < fields.size(); ++i) {
    if (FirstNotUtf8(fields[i]->name()) != std::string::npos) {
      throw std::runtime_error("the name of its column " + std::to_string(i + 1) + " is not UTF-8");
    }
    CheckNames(fields[i]->type()->fields());
  }
}

// Also that texts are UTF-8, and that no offset in a damaged file leads outside it.
Batch Checked(Batch batch) {
  Need(batch->ValidateFull());
  return batch;
}

// Rows in consecutive batches.
class Batches : public ColumnFile {
 public:
  int64_t rows() const override { return ends_.empty() ? 0 : ends_.back(); }
  Json Read(int64_t row, std::string& error) const override {
    try {
      const size_t batch = std::upper_bound(ends_.begin(), ends_.end(), row) - ends_.begin();
      return RowJson(*Load(batch), row - (ends_.at(batch) - RowsOf(batch)));
    } catch (const std::exception& problem) {
      error = problem.what();
      return nullptr;
    }
  }

 protected:
  void AddRows(int64_t rows) {
    if (rows < 0 || rows > std::numeric_limits<int64_t>::max() - this->rows()) {
      throw std::runtime_error("says that batch " + std::to_string(batches()) + " has " + std::to_string(rows) +
                               " rows");
    }
    ends_.push_back(this->rows() + rows);
  }
  int64_t RowsOf(size_t batch) const { return ends_[batch] - (batch == 0 ? 0 : ends_[batch - 1]); }
  size_t batches() const { return ends_.size(); }

 private:
  virtual Batch Load(size_t batch) const = 0;

  std::vector<int64_t> ends_;  // after each batch
};

class ArrowFile : public Batches {
 public:
  explicit ArrowFile(const std::string& path)
      : file_(Need(arrow::io::MemoryMappedFile::Open(path, arrow::io::FileMode::READ))) {
    const std::string_view magic = "ARROW1";
    const std::shared_ptr<arrow::Buffer> begin = Need(file_->ReadAt(0, static_cast<int64_t>(magic.size())));
    if (std::string_view(*begin) == magic) {
      ReadFile();
    } else {
      ReadStream();
    }
  }

 private:
  void ReadFile() {
    const auto reader = Need(arrow::ipc::RecordBatchFileReader::Open(file_));
    CheckNames(reader->schema()->fields());
    for (int i = 0; i < reader->num_record_batches(); ++i) Add(Need(reader->ReadRecordBatch(i)));
  }

  void ReadStream() {
    const auto reader = Need(arrow::ipc::RecordBatchStreamReader::Open(file_));
    CheckNames(reader->schema()->fields());
    for (Batch batch;;) {
      Need(reader->ReadNext(&batch));
      if (!batch) break;
      Add(std::move(batch));
    }
    RefuseRest();
  }

  // A stream ends with a mark of no length, or with its file; bytes beyond are another stream that nobody would read.
  void RefuseRest() const {
    if (Need(file_->Tell()) < Need(file_->GetSize()))
      throw std::runtime_error("has other bytes after the end of its stream");
  }

  void Add(Batch batch) {
    AddRows(batch->num_rows());
    batches_.push_back(Checked(std::move(batch)));
  }
  Batch Load(size_t batch) const override { return batches_[batch]; }

  const std::shared_ptr<arrow::io::MemoryMappedFile> file_;
  std::vector<Batch> batches_;  // views of the mapping, but where they are compressed
};

class ParquetFile : public Batches {
 public:
  explicit ParquetFile(const std::string& path) {
    parquet::ReaderProperties properties;
    properties.set_page_checksum_verification(true);
    parquet::ArrowReaderProperties options;
    options.set_use_threads(true);
    parquet::arrow::FileReaderBuilder builder;
    Need(builder.OpenFile(path, /*memory_map=*/true, properties));
    Need(builder.properties(options)->Build(&reader_));
    std::shared_ptr<arrow::Schema> schema;
    Need(reader_->GetSchema(&schema));
    CheckNames(schema->fields());
    const std::shared_ptr<parquet::FileMetaData> metadata = reader_->parquet_reader()->metadata();
    for (int i = 0; i < metadata->num_row_groups(); ++i) AddRows(metadata->RowGroup(i)->num_rows());
  }

 private:
  Batch Load(size_t group) const override {
    const std::lock_guard lock(mutex_);  // Arrow decodes a group on all cores
    for (const auto& [number, batch] : loaded_) {
      if (number == group) return batch;
    }
    std::shared_ptr<arrow::Table> table;
    Need(reader_->ReadRowGroup(static_cast<int>(group), &table));
    Batch batch = Checked(Need(table->CombineChunksToBatch()));
    if (batch->num_rows() != RowsOf(group)) {  // what the footer says is nowhere else checked against the pages
      throw std::runtime_error("row group " + std::to_string(group) + " has " + std::to_string(batch->num_rows()) +
                               " rows, and the footer says " + std::to_string(RowsOf(group)));
    }
    if (loaded_.size() == kGroupsInMemory) loaded_.pop_front();
    loaded_.emplace_back(group, batch);
    return batch;
  }

  std::unique_ptr<parquet::arrow::FileReader> reader_;
  mutable std::mutex mutex_;
  mutable std::deque<std::pair<size_t, Batch>> loaded_;
};

ColumnFile* OpenByName(const std::string& path) {
  if (path.ends_with(".parquet")) return new ParquetFile(path);
  return new ArrowFile(path);
}

}  // namespace
}  // namespace trireme

extern "C" __attribute__((visibility("default"))) trireme::ColumnFile* trireme_open_column_file(const char* path,
                                                                                                std::string& error) {
  try {
    return trireme::OpenByName(path);
  } catch (const std::exception& problem) {
    error = problem.what();
    return nullptr;
  }
}
