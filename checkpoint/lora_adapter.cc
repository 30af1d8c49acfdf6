#include "checkpoint/lora_adapter.h"

#include <algorithm>
#include <cmath>

#include "checkpoint/elements.h"
#include "core/base/error.h"

namespace trireme {
namespace {

constexpr char kScoreTensor[] = "score.weight";

std::vector<float> Wide(const TensorView& view) {
  std::vector<float> values(static_cast<size_t>(Elements(view.shape)));
  Convert(view.dtype, view.bytes.data(), DType::kFp32, values.data(), values.size());
  return values;
}

// Adds scale · B·A, row by row of B; `weight` is [outputs, inputs].
void AddMatMul(const std::vector<float>& a, const std::vector<float>& b, double scale, int64_t rank,
               std::vector<float>& weight) {
  const auto inputs = static_cast<int64_t>(a.size()) / rank, outputs = static_cast<int64_t>(b.size()) / rank;
  std::vector<float> sum(static_cast<size_t>(inputs));
  for (int64_t out = 0; out < outputs; ++out) {
    std::fill(sum.begin(), sum.end(), 0.0f);
    for (int64_t r = 0; r < rank; ++r) {
      const float factor = b[static_cast<size_t>(out * rank + r)];
      const float* row = a.data() + r * inputs;
      for (int64_t in = 0; in < inputs; ++in) sum[static_cast<size_t>(in)] += factor * row[in];
    }
    float* target = weight.data() + out * inputs;
    for (int64_t in = 0; in < inputs; ++in) target[in] += static_cast<float>(scale) * sum[static_cast<size_t>(in)];
  }
}

// DoRA: gives each row of `weight` its length.
void ScaleRows(const std::vector<float>& lengths, std::vector<float>& weight) {
  const size_t inputs = weight.size() / lengths.size();
  for (size_t out = 0; out < lengths.size(); ++out) {
    float* row = weight.data() + out * inputs;
    double squares = 0;
    for (size_t in = 0; in < inputs; ++in) squares += static_cast<double>(row[in]) * row[in];
    const auto factor = static_cast<float>(lengths[out] / std::sqrt(squares));
    for (size_t in = 0; in < inputs; ++in) row[in] *= factor;
  }
}

std::vector<float> Transposed(const std::vector<float>& values, int64_t rows, int64_t columns) {
  std::vector<float> turned(values.size());
  CopyBox({rows, columns}, {DType::kFp32, values.data(), {columns, 1}}, {DType::kFp32, turned.data(), {1, rows}});
  return turned;
}

}  // namespace

LoraAdapter::LoraAdapter(const std::filesystem::path& directory, const HfDirectory& base, const ExpertNames& experts)
    : files_(directory, experts), plan_(files_.Plan()) {
  for (const std::string& name : files_.Names()) {
    const std::optional<AdapterTensorNames> adapter = AdapterTensorNamesOf(name);
    if (adapter) {
      adapters_.emplace(adapter->module + ".weight", *adapter);
    } else if (name == kScoreTensor && !base.Has(name)) {
      added_.insert(name);
    } else {
      replaced_.insert(name);
    }
  }
  for (const std::string& name : replaced_) CheckReplaced(name, base);
  for (const auto& [name, adapter] : adapters_) CheckAdapter(name, adapter, base);
}

std::string LoraAdapter::Where(const std::string& name) const { return files_.path().string() + ": '" + name + "'"; }

void LoraAdapter::CheckReplaced(const std::string& name, const HfDirectory& base) const {
  if (!base.Has(name)) {
    throw InputError(Where(name), " replaces a tensor that ", base.path().string(), " does not have");
  }
  const Shape shape = files_.Describe(name).shape;
  if (base.Describe(name).shape == shape) return;
  throw InputError(Where(name), " is ", ShapeText(shape), "; ", base.path().string(), " has ",
                   ShapeText(base.Describe(name).shape), "; is the adapter for another model?");
}

void LoraAdapter::CheckAdapter(const std::string& name, const AdapterTensorNames& adapter,
                               const HfDirectory& base) const {
  if (!base.Has(name)) {
    throw InputError(Where(name), ": ", base.path().string(), " has no such weight; is the adapter for another model?");
  }
  const Shape shape = base.Describe(name).shape, a = files_.Describe(adapter.a).shape,
              b = files_.Describe(adapter.b).shape;
  const bool matrices = a.size() == 2 && b.size() == 2 && shape.size() == 2;
  const Shape wanted = !matrices ? Shape{} : adapter.embedding ? Shape{a[1], b[0]} : Shape{b[0], a[1]};
  const bool lengths = !plan_.dora || (matrices && files_.Describe(adapter.magnitude).shape == Shape{shape[0]});
  if (matrices && lengths && a[0] == b[1] && wanted == shape) return;
  throw InputError(Where(name), ": A ", ShapeText(a), " and B ", ShapeText(b), " do not fit the weight ",
                   ShapeText(shape), "; is the adapter for another model?");
}

void LoraAdapter::Apply(const std::string& name, std::vector<float>& values) const {
  if (replaced_.contains(name)) values = Wide(files_.Find(name));
  const auto found = adapters_.find(name);
  if (found == adapters_.end()) return;
  const AdapterTensorNames& adapter = found->second;
  const std::vector<float> a = Wide(files_.Find(adapter.a)), b = Wide(files_.Find(adapter.b));
  const AdapterModule& module = plan_.modules.at(adapter.module);
  const auto inputs = static_cast<int64_t>(a.size()) / module.rank,
             outputs = static_cast<int64_t>(b.size()) / module.rank;
  const double scale = plan_.ScaleOf(module);
  if (!adapter.embedding) {
    AddMatMul(a, b, scale, module.rank, values);
    if (plan_.dora) ScaleRows(Wide(files_.Find(adapter.magnitude)), values);
    return;
  }
  // (B·A) transposed is Aᵀ·Bᵀ.
  AddMatMul(Transposed(b, outputs, module.rank), Transposed(a, module.rank, inputs), scale, module.rank, values);
}

}  // namespace trireme
