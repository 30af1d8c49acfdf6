// The processor's settings out of a model directory: what transformers' AutoImageProcessor reads there. A setting that
// means something and is not implemented is refused.
#include <set>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/json.h"
#include "images/processor.h"

namespace trireme::images {
namespace {

const std::set<std::string> kQwenProcessors = {"Qwen2VLImageProcessor", "Qwen2VLImageProcessorFast",
                                               "Qwen2VLImageProcessorPil"};
const std::set<std::string> kTileProcessors = {"GotOcr2ImageProcessor", "GotOcr2ImageProcessorFast",
                                               "GotOcr2ImageProcessorPil"};

struct SettingsFile {
  std::string path;
  Json settings;
};

SettingsFile ReadSettings(const std::filesystem::path& model) {
  const std::filesystem::path together = model / "processor_config.json", alone = model / "preprocessor_config.json";
  if (PathExists(together)) {
    const Json file = ReadJsonFile(together.string());
    if (file.contains("image_processor")) return {together.string(), file["image_processor"]};
  }
  if (PathExists(alone)) return {alone.string(), ReadJsonFile(alone.string())};
  throw InputError("model.path: ", model.string(),
                   " has neither preprocessor_config.json nor processor_config.json with ",
                   "image_processor; copy it from the model's repository, it says how images are resized");
}

template <typename T>
void Take(const SettingsFile& file, const char* key, T* value) {
  if (!file.settings.contains(key) || file.settings[key].is_null()) return;
  try {
    *value = file.settings[key].get<T>();
  } catch (const nlohmann::json::exception&) {
    throw InputError(file.path, ": ", key, " is ", file.settings[key].dump(), ", which is not a value of that key");
  }
}

void Demand(const SettingsFile& file, const char* key, const Json& value) {
  if (!file.settings.contains(key) || file.settings[key].is_null() || file.settings[key] == value) return;
  throw InputError(file.path, ": ", key, " is ", file.settings[key].dump(), "; only ", value.dump(), " is implemented");
}

// Whether it cuts images into tiles.
bool CheckKind(const SettingsFile& file) {
  if (!file.settings.is_object()) throw InputError(file.path, ": the image processor's settings are not an object");
  std::string type;
  Take(file, "image_processor_type", &type);
  if (!type.empty() && !kQwenProcessors.contains(type) && !kTileProcessors.contains(type)) {
    throw InputError(file.path, ": image_processor_type is ", type,
                     "; only Qwen2-VL's processor is implemented, which ",
                     "Qwen2-VL, Qwen2.5-VL and Qwen3-VL use, and GotOcr2's, which InternVL uses");
  }
  for (const char* key : {"do_resize", "do_rescale", "do_normalize", "do_convert_rgb"}) Demand(file, key, true);
  for (const char* key : {"do_center_crop", "do_pad"}) Demand(file, key, false);
  Demand(file, "resample", 3);
  return kTileProcessors.contains(type);
}

void CheckPositive(const SettingsFile& file, const char* key, double value) {
  if (!(value > 0)) throw InputError(file.path, ": ", key, " is ", value, "; it must be positive");
}

// A square's side, which the model's config has once or for both sides.
int64_t SideIn(const Json& tower, const char* key, int64_t otherwise) {
  const Json side = tower.value(key, Json(otherwise));
  if (side.is_number_integer()) return side.get<int64_t>();
  const bool square = side.is_array() && side.size() == 2 && side[0] == side[1] && side[0].is_number_integer();
  return square ? side[0].get<int64_t>() : 0;
}

// The tower's patches are in config.json alone. That InternVL's processor cuts tiles whatever crop_to_patches says is
// transformers' doing.
void ReadTiles(const std::filesystem::path& model, const SettingsFile& file, ProcessorSettings* found) {
  TileSettings tiles;
  if (file.settings.contains("size") && file.settings["size"].is_object()) {
    const SettingsFile size{file.path + ": size", file.settings["size"]};
    Take(size, "height", &tiles.side);
    Demand(size, "width", tiles.side);
  }
  Take(file, "min_patches", &tiles.fewest);
  Take(file, "max_patches", &tiles.most);
  const std::string config = (model / "config.json").string();
  const Json tower = ReadJsonFile(config).value("vision_config", Json::object());
  found->patch_size = SideIn(tower, "patch_size", 14);
  found->temporal_patch_size = 1;
  found->merge_size = 2;
  if (SideIn(tower, "image_size", 448) != tiles.side || found->patch_size < 1 ||
      tiles.side % (2 * found->patch_size) != 0) {
    throw InputError(file.path, ": size is ", tiles.side, " x ", tiles.side, ", but vision_config of ", config,
                     " has image_size ", tower.value("image_size", Json()).dump(), " and patch_size ",
                     tower.value("patch_size", Json()).dump(), "; wanted tiles of the tower's size");
  }
  if (tiles.fewest < 1 || tiles.most < tiles.fewest) {
    throw InputError(file.path, ": min_patches ", tiles.fewest, " and max_patches ", tiles.most,
                     "; wanted 1 <= min <= max");
  }
  found->tiles = tiles;
}

}  // namespace

ProcessorSettings ProcessorSettings::Read(const std::filesystem::path& model) {
  SettingsFile file = ReadSettings(model);
  const bool tiled = CheckKind(file);
  ProcessorSettings found;
  Take(file, "patch_size", &found.patch_size);
  Take(file, "temporal_patch_size", &found.temporal_patch_size);
  Take(file, "merge_size", &found.merge_size);
  Take(file, "image_mean", &found.mean);
  Take(file, "image_std", &found.std);
  Take(file, "rescale_factor", &found.rescale_factor);
  if (tiled) {
    ReadTiles(model, file, &found);
  } else if (file.settings.contains("size") && file.settings["size"].is_object()) {
    const SettingsFile size{file.path + ": size", file.settings["size"]};
    Take(size, "shortest_edge", &found.min_pixels);  // areas, in spite of their names
    Take(size, "longest_edge", &found.max_pixels);
  }
  Take(file, "min_pixels", &found.min_pixels);
  Take(file, "max_pixels", &found.max_pixels);
  CheckPositive(file, "patch_size", static_cast<double>(found.patch_size));
  CheckPositive(file, "temporal_patch_size", static_cast<double>(found.temporal_patch_size));
  CheckPositive(file, "merge_size", static_cast<double>(found.merge_size));
  CheckPositive(file, "max_pixels", static_cast<double>(found.max_pixels));
  CheckPositive(file, "rescale_factor", found.rescale_factor);
  for (const double std : found.std) CheckPositive(file, "image_std", std);
  return found;
}

}  // namespace trireme::images
