// A table of figures: key, where it is stored, and the range outside of which a typing error is likelier than a device.
#include "cost/device.h"

#include <yaml-cpp/yaml.h>

#include <filesystem>
#include <functional>
#include <map>
#include <set>
#include <sstream>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/text.h"
#include "cost/device_files.h"

namespace trireme {
namespace {

struct Figure {
  const char* key;
  std::function<double&(DeviceRates&)> at;
  double least, most;
};

const std::vector<Figure>& Figures() {
  static const std::vector<Figure> figures = {
      {"peak_tflops", [](DeviceRates& d) -> double& { return d.peak_tflops; }, 1e-3, 1e5},
      {"fp8_tflops", [](DeviceRates& d) -> double& { return d.fp8_tflops; }, 0, 1e5},
      {"memory_gib", [](DeviceRates& d) -> double& { return d.memory_gib; }, 0.5, 1e5},
      {"memory_gbs", [](DeviceRates& d) -> double& { return d.memory_gbs; }, 1, 1e5},
      {"products.efficiency", [](DeviceRates& d) -> double& { return d.products.efficiency; }, 0.01, 1},
      {"products.m_half", [](DeviceRates& d) -> double& { return d.products.m_half; }, 0, 1e5},
      {"products.n_half", [](DeviceRates& d) -> double& { return d.products.n_half; }, 0, 1e5},
      {"products.k_half", [](DeviceRates& d) -> double& { return d.products.k_half; }, 0, 1e5},
      {"products.tile_m", [](DeviceRates& d) -> double& { return d.products.tile_m; }, 1, 1024},
      {"products.tile_n", [](DeviceRates& d) -> double& { return d.products.tile_n; }, 1, 1024},
      {"products.cores", [](DeviceRates& d) -> double& { return d.products.cores; }, 1, 1024},
      {"fp8_efficiency", [](DeviceRates& d) -> double& { return d.fp8_efficiency; }, 0, 1},
      {"attention.forward", [](DeviceRates& d) -> double& { return d.attention.forward; }, 0.001, 1},
      {"attention.backward", [](DeviceRates& d) -> double& { return d.attention.backward; }, 0.001, 1},
      {"attention.length_half", [](DeviceRates& d) -> double& { return d.attention.length_half; }, 0, 1e5},
      {"rest_efficiency", [](DeviceRates& d) -> double& { return d.rest_efficiency; }, 0.01, 10},
      {"update_efficiency", [](DeviceRates& d) -> double& { return d.update_efficiency; }, 0.01, 10},
      {"layer_us", [](DeviceRates& d) -> double& { return d.layer_us; }, 0, 1e6},
      {"step_ms", [](DeviceRates& d) -> double& { return d.step_ms; }, 0, 1e5},
      {"exchange_efficiency", [](DeviceRates& d) -> double& { return d.exchange_efficiency; }, 0.01, 1},
      {"contention", [](DeviceRates& d) -> double& { return d.contention; }, 0, 1},
      {"residual", [](DeviceRates& d) -> double& { return d.residual; }, 0.1, 10},
      {"memory_residual", [](DeviceRates& d) -> double& { return d.memory_residual; }, 0.3, 3},
      {"host_cores", [](DeviceRates& d) -> double& { return d.host_cores; }, 0, 1024},
      {"host_crowding", [](DeviceRates& d) -> double& { return d.host_crowding; }, 0, 10},
      {"inside.ranks", [](DeviceRates& d) -> double& { return d.inside.ranks; }, 1, 1e6},
      {"inside.gbs", [](DeviceRates& d) -> double& { return d.inside.gbs; }, 0.01, 1e5},
      {"inside.alpha_us", [](DeviceRates& d) -> double& { return d.inside.alpha_us; }, 0, 1e5},
      {"inside.half_mb", [](DeviceRates& d) -> double& { return d.inside.half_mb; }, 0, 1e4},
      {"between.gbs", [](DeviceRates& d) -> double& { return d.between.gbs; }, 0.01, 1e5},
      {"between.alpha_us", [](DeviceRates& d) -> double& { return d.between.alpha_us; }, 0, 1e5},
      {"between.half_mb", [](DeviceRates& d) -> double& { return d.between.half_mb; }, 0, 1e4},
  };
  return figures;
}

// Sections become keys with a dot; deeper ones, and lists, are no part of such a file.
std::map<std::string, std::string> Flat(const std::string& text, const std::string& source) {
  std::map<std::string, std::string> flat;
  try {
    const YAML::Node root = YAML::Load(text);
    if (!root.IsMap()) throw InputError(source, ": wanted keys and figures, as cost/devices/h100.yaml has them");
    for (const auto& entry : root) {
      const auto key = entry.first.as<std::string>();
      const YAML::Node value = entry.second;
      if (value.IsScalar()) flat[key] = value.as<std::string>();
      if (!value.IsMap()) continue;
      for (const auto& inner : value) flat[key + "." + inner.first.as<std::string>()] = inner.second.as<std::string>();
    }
  } catch (const YAML::Exception& error) {
    throw InputError(source, ": not YAML of keys and figures: ", error.what());
  }
  return flat;
}

std::string TakeText(std::map<std::string, std::string>& flat, const std::string& key, const std::string& source,
                     const std::set<std::string>& allowed) {
  const auto found = flat.find(key);
  if (found == flat.end()) throw InputError(source, ": ", key, " is missing");
  const std::string value = found->second;
  flat.erase(found);
  if (!allowed.empty() && !allowed.contains(value)) {
    throw InputError(source, ": ", key, " is ", value, "; wanted ", Join(allowed, " or "));
  }
  return value;
}

double TakeFigure(std::map<std::string, std::string>& flat, const Figure& figure, const std::string& source) {
  const std::string text = TakeText(flat, figure.key, source, {});
  std::istringstream in(text);
  double value = 0;
  if (!(in >> value) || !(in >> std::ws).eof())
    throw InputError(source, ": ", figure.key, " is ", text, "; wanted a number");
  if (value >= figure.least && value <= figure.most) return value;
  throw InputError(source, ": ", figure.key, " is ", text, "; wanted ", figure.least, " to ", figure.most);
}

}  // namespace

DeviceRates ParseDevice(const std::string& text, const std::string& source) {
  std::map<std::string, std::string> flat = Flat(text, source);
  DeviceRates device;
  device.name = TakeText(flat, "name", source, {});
  device.kind = TakeText(flat, "kind", source, {"npu", "cuda", "cpu"});
  device.inside.mesh = TakeText(flat, "inside.links", source, {"mesh", "switch"}) == "mesh";
  for (const Figure& figure : Figures()) figure.at(device) = TakeFigure(flat, figure, source);
  if (!flat.empty()) throw InputError(source, ": ", flat.begin()->first, " is no figure of a device");
  return device;
}

std::vector<std::string> KnownDevices() {
  std::vector<std::string> names;
  for (const DeviceFile& file : DeviceFiles()) names.emplace_back(file.name);
  return names;
}

DeviceRates FindDevice(const std::string& name_or_file) {
  for (const DeviceFile& file : DeviceFiles()) {
    if (file.name == name_or_file) return ParseDevice(std::string(file.text), name_or_file + ".yaml");
  }
  std::error_code ignored;
  if (std::filesystem::is_regular_file(name_or_file, ignored))
    return ParseDevice(ReadTextFile(name_or_file), name_or_file);
  throw InputError("--on ", name_or_file,
                   ": no device of that name and no such file; known: ", Join(KnownDevices(), ", "),
                   "; measure another device on it with trireme calibrate --model DIR --to FILE and give the file");
}

std::string ToText(const DeviceRates& device, const std::map<std::string, std::string>& sources) {
  std::ostringstream out;
  DeviceRates copy = device;
  out << "name: " << device.name << "\nkind: " << device.kind << "\n";
  std::string section;
  for (const Figure& figure : Figures()) {
    const std::string key = figure.key;
    const size_t dot = key.find('.');
    const std::string of = dot == std::string::npos ? "" : key.substr(0, dot);
    if (of != section && !of.empty()) out << of << ":\n";
    if (of == "inside" && of != section) out << "  links: " << (device.inside.mesh ? "mesh" : "switch") << "\n";
    section = of;
    out << (of.empty() ? "" : "  ") << (of.empty() ? key : key.substr(dot + 1)) << ": " << figure.at(copy);
    if (const auto source = sources.find(key); source != sources.end()) out << "  # " << source->second;
    out << "\n";
  }
  return out.str();
}

}  // namespace trireme
