#include "data/row_images.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "checkpoint/safetensors.h"
#include "core/base/error.h"
#include "data/image_marks.h"

namespace trireme {
namespace {

constexpr char kPixels[] = "pixel_values", kGrids[] = "image_grid_thw", kImages[] = "images";

std::vector<ImageGrid> GridsOf(const Json& list, const std::string& where) {
  const auto refuse = [&](const Json& item) -> Error {
    return InputError(where, ": ", kGrids, " has ", item.dump().substr(0, 60),
                      "; wanted [1, height, width] in patches for ", "each image, or [tiles, height, width]");
  };
  if (!list.is_array()) throw refuse(list);
  std::vector<ImageGrid> grids;
  for (const Json& item : list) {
    const bool three = item.is_array() && item.size() == 3;
    if (!three || !std::all_of(item.begin(), item.end(), [](const Json& size) { return size.is_number_integer(); })) {
      throw refuse(item);
    }
    grids.push_back({item[0].get<int64_t>(), item[1].get<int64_t>(), item[2].get<int64_t>()});
  }
  return grids;
}

std::shared_ptr<const std::vector<float>> PixelsOf(const std::filesystem::path& path, int64_t patches, int64_t elements,
                                                   const std::string& where) {
  const SafetensorsFile file(path);
  const auto found = file.tensors().find(kPixels);
  if (found == file.tensors().end()) throw InputError(where, ": ", path.string(), " has no tensor ", kPixels);
  const TensorView& view = found->second;
  const Shape wanted = {patches, elements};
  if (view.shape != wanted || view.dtype != DType::kFp32) {
    throw InputError(where, ": ", kPixels, " in ", path.string(), " is ", ShapeText(view.shape),
                     "; the row's grids and the ", "model want ", ShapeText(wanted), " in fp32");
  }
  auto pixels = std::make_shared<std::vector<float>>(static_cast<size_t>(patches * elements));
  std::memcpy(pixels->data(), view.bytes.data(), view.bytes.size());
  return pixels;
}

void CheckPlaceholders(const Row& row, const ImageInputs& kind, const std::string& where) {
  try {
    PackedImagePositions(row.input_ids, DocumentLengths(row), row.grids, {kind.placeholder, kind.merge, kind.tile});
  } catch (const Error& error) {
    throw InputError(where, ": ", error.what());
  }
}

}  // namespace

std::vector<int64_t> DocumentLengths(const Row& row) {
  std::vector<int64_t> lengths;
  for (size_t i = 0; i < row.starts.size(); ++i) {
    const int64_t end = i + 1 < row.starts.size() ? row.starts[i + 1] : std::ssize(row.input_ids);
    lengths.push_back(end - row.starts[i]);
  }
  return lengths;
}

void ReadRowImages(const Json& object, const std::string& where, const std::filesystem::path& folder,
                   const ImageInputs* kind, Row& row) {
  const bool given = object.contains(kPixels) || object.contains(kGrids);
  const bool named = object.contains(kImages);
  if (kind == nullptr) {
    if (given || named)
      throw InputError(where, ": has ", given ? kPixels : kImages, ", but the model has no vision tower");
    return;
  }
  if (named) {
    if (given) throw InputError(where, ": has both ", kImages, " and ", kPixels, "; wanted one of them");
    for (const std::string& source : ResolvedImages(ListedImages(object), folder))
      row.images.push_back({.source = source});
    return;
  }
  if (given) {
    if (!object.contains(kPixels) || !object.contains(kGrids) || !object.at(kPixels).is_string()) {
      throw InputError(where, ": wanted both ", kPixels, ", the name of a .safetensors file, and ", kGrids);
    }
    row.grids = GridsOf(object.at(kGrids), where);
  }
  CheckPlaceholders(row, *kind, where);
  if (row.grids.empty()) return;
  const int64_t patches = std::accumulate(row.grids.begin(), row.grids.end(), int64_t{0},
                                          [](int64_t sum, const ImageGrid& grid) { return sum + grid.patches(); });
  row.patches = PixelsOf(folder / object.at(kPixels).get<std::string>(), patches, kind->elements, where);
}

}  // namespace trireme
