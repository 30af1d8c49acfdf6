#include "data/image_rows.h"

#include <sys/stat.h>

#include <algorithm>
#include <utility>

#include "core/base/error.h"
#include "data/image_tokens.h"

namespace trireme {
namespace {

class RowsWithPatches : public RowSource {
 public:
  RowsWithPatches(Rows rows, std::shared_ptr<const ImageReader> reader, size_t most_bytes)
      : rows_(std::move(rows)), reader_(reader), cache_(std::move(reader), most_bytes) {}
  int64_t size() const override { return rows_->size(); }
  int64_t Length(int64_t row) const override { return rows_->Length(row); }
  int64_t Trained(int64_t row) const override { return rows_->Trained(row); }
  bool ReadingIsWork() const override { return true; }
  RowExtent Extent(int64_t row) const override { return rows_->Extent(row); }
  Row Read(int64_t row) const override {
    Row read;
    {
      const std::lock_guard lock(mutex_);  // not every source may be read on several threads
      read = rows_->Read(row);
    }
    FillPatches(read, *reader_, cache_);
    return read;
  }

 private:
  const Rows rows_;
  const std::shared_ptr<const ImageReader> reader_;
  mutable ImageCache cache_;
  mutable std::mutex mutex_;
};

// Another file of the same name is another image, and so is one that was to have another grid.
std::string KeyOf(const RowImage& image) {
  std::string key = Concat(image.source, "\n", image.grid.time, " ", image.grid.height, " ", image.grid.width);
  struct stat file;
  if (!image.source.starts_with("data:") && stat(image.source.c_str(), &file) == 0) {
    key += Concat(" ", file.st_ino, " ", file.st_size, " ", file.st_mtim.tv_sec, " ", file.st_mtim.tv_nsec);
  }
  return key;
}

}  // namespace

std::shared_ptr<const images::Image> ImageCache::Find(const std::string& key) {
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(key);
  if (found == entries_.end()) return nullptr;
  uses_.splice(uses_.begin(), uses_, found->second.use);
  return found->second.image;
}

std::shared_ptr<const images::Image> ImageCache::Get(const RowImage& image) {
  const std::string key = KeyOf(image);
  if (auto found = Find(key)) return found;
  auto loaded = std::make_shared<const images::Image>(reader_->Load(image.source, image.grid));
  const std::lock_guard lock(mutex_);
  ++decoded_;
  const size_t bytes = loaded->rgb.size() + key.size();
  if (bytes > most_bytes_ || entries_.contains(key)) return loaded;  // another thread was as quick
  uses_.push_front(key);
  entries_[key] = {loaded, uses_.begin()};
  bytes_ += bytes;
  while (bytes_ > most_bytes_) {
    const auto oldest = entries_.find(uses_.back());
    bytes_ -= oldest->second.image->rgb.size() + oldest->first.size();
    entries_.erase(oldest);
    uses_.pop_back();
  }
  return loaded;
}

size_t ImageCache::bytes() const {
  const std::lock_guard lock(mutex_);
  return bytes_;
}

void FillPatches(Row& row, const ImageReader& reader, ImageCache& cache) {
  if (row.images.empty()) return;
  int64_t patches = 0;
  for (const RowImage& image : row.images) patches += image.grid.patches();
  auto values = std::make_shared<std::vector<float>>(static_cast<size_t>(patches * reader.patch_floats()));
  float* to = values->data();
  for (const RowImage& image : row.images) {
    reader.WritePatches(*cache.Get(image), to);
    to += image.grid.patches() * reader.patch_floats();
  }
  row.patches = std::move(values);
}

void LoadRowImages(std::vector<Row>& rows, const std::string& path, const ImageReader::Options& options) {
  if (std::ranges::all_of(rows, [](const Row& row) { return row.images.empty(); })) return;
  const auto reader = std::make_shared<const ImageReader>(options);
  ImageCache cache(reader, 0);
  for (size_t i = 0; i < rows.size(); ++i) {
    std::vector<std::string> sources;
    for (const RowImage& image : rows[i].images) sources.push_back(image.source);
    if (sources.empty()) continue;
    try {
      rows[i].images = FindImages(sources, *reader, {rows[i].input_ids.begin(), rows[i].input_ids.end()});
      for (const RowImage& image : rows[i].images) rows[i].grids.push_back(image.grid);
      FillPatches(rows[i], *reader, cache);
    } catch (const Error& error) {
      throw Error(error.kind(), Concat(path, ": row ", i + 1, ": ", error.what()));
    }
  }
}

Rows ImageRows(Rows rows, std::shared_ptr<const ImageReader> reader, size_t most_bytes) {
  return std::make_shared<RowsWithPatches>(std::move(rows), std::move(reader), most_bytes);
}

}  // namespace trireme
