// ImageRows: rows with the patches of their images, decoded when a row is read. What was decoded is kept, as bytes, up
// to a bound, so that short data sets decode once. Reading ahead on all cores is the Prefetcher's.
#pragma once

#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "data/image_reader.h"
#include "data/row_views.h"

namespace trireme {

// Decoded and resized images, the least recently used of which are dropped when they take more than so many bytes.
class ImageCache {
 public:
  ImageCache(std::shared_ptr<const ImageReader> reader, size_t most_bytes)
      : reader_(std::move(reader)), most_bytes_(most_bytes) {}
  std::shared_ptr<const images::Image> Get(const RowImage& image);
  size_t bytes() const;
  int64_t decoded() const { return decoded_; }

 private:
  struct Entry {
    std::shared_ptr<const images::Image> image;
    std::list<std::string>::iterator use;
  };
  std::shared_ptr<const images::Image> Find(const std::string& key);

  const std::shared_ptr<const ImageReader> reader_;
  const size_t most_bytes_;
  mutable std::mutex mutex_;
  std::list<std::string> uses_;  // the latest first
  std::unordered_map<std::string, Entry> entries_;
  size_t bytes_ = 0;
  int64_t decoded_ = 0;
};

// Fills row.patches from row.images.
void FillPatches(Row& row, const ImageReader& reader, ImageCache& cache);

// Grids and patches of rows whose images are only named (row_images.h). `path` names their file in errors.
void LoadRowImages(std::vector<Row>& rows, const std::string& path, const ImageReader::Options& options);

Rows ImageRows(Rows rows, std::shared_ptr<const ImageReader> reader, size_t most_bytes);

}  // namespace trireme
