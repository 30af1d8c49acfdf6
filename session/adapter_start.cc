#include "session/adapter_start.h"

#include <ATen/ATen.h>

#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include "checkpoint/elements.h"
#include "core/base/error.h"
#include "core/base/random.h"
#include "ops/dequantise/dequantise.h"
#include "parallel/tensor/collectives.h"

namespace trireme {
namespace {

constexpr std::string_view kNiter = "pissa_niter_";

// A tensor of the files, and the parameter that has it.
struct FileTensorOf {
  Weights::Entry* entry = nullptr;
  const HfTensor* tensor = nullptr;
};

struct Decomposition {
  at::Tensor a, b;  // [rank, in], [out, rank]
};

// Calls copy(part of the file's tensor, part of the local one, whether this rank owns it) for each box that the rank
// has.
template <typename Copy>
void ForEachSlice(const FileTensorOf& which, int rank, const at::Tensor& whole, const Copy& copy) {
  const at::Tensor local = MatrixOf(which.entry->weight);
  for (const SliceCopy& slice : SliceCopies(which.entry->parameter, which.entry->placement, rank)) {
    if (slice.source->name != which.tensor->name) continue;
    copy(whole.as_strided(slice.extent, slice.file_strides, slice.file_offset),
         local.as_strided(slice.extent, slice.local_strides, local.storage_offset() + slice.local_offset),
         slice.replica == 0);
  }
}

at::Tensor Gathered(const FileTensorOf& which, const AdapterStart& start) {
  const at::Tensor whole = at::zeros(which.tensor->shape, MatrixOf(which.entry->weight).options().dtype(at::kFloat));
  ForEachSlice(which, start.rank, whole, [](const at::Tensor& file, const at::Tensor& local, bool owned) {
    if (owned) file.copy_(local);
  });
  AllReduce(whole, start.stage);
  return whole;
}

void Scatter(const at::Tensor& whole, const FileTensorOf& which, const AdapterStart& start) {
  ForEachSlice(which, start.rank, whole,
               [](const at::Tensor& file, const at::Tensor& local, bool) { local.copy_(file); });
}

// A basis of the space into which the largest singular values map, by power iteration from random vectors.
at::Tensor LeadingBasis(const at::Tensor& matrix, int64_t rank, int64_t iterations, const RandomStream& random) {
  at::Tensor vectors = at::empty({matrix.size(1), rank}, at::kFloat);
  auto* numbers = vectors.data_ptr<float>();
  for (int64_t i = 0; i < vectors.numel(); ++i)
    numbers[i] = static_cast<float>(random.Normal(static_cast<uint64_t>(i)));
  at::Tensor basis = std::get<0>(at::linalg_qr(at::mm(matrix, vectors)));
  for (int64_t i = 0; i < iterations; ++i) {
    basis = std::get<0>(at::linalg_qr(at::mm(matrix.t(), basis)));
    basis = std::get<0>(at::linalg_qr(at::mm(matrix, basis)));
  }
  return basis;
}

Decomposition Pissa(const at::Tensor& weight, int64_t rank, double scale, int64_t iterations,
                    const RandomStream& random) {
  at::Tensor left, values, right;
  if (iterations == 0) {
    std::tie(left, values, right) = at::linalg_svd(weight, /*full_matrices=*/false);
  } else {
    const at::Tensor basis = LeadingBasis(weight, rank, iterations, random);
    std::tie(left, values, right) = at::linalg_svd(at::mm(basis.t(), weight), /*full_matrices=*/false);
    left = at::mm(basis, left);
  }
  const at::Tensor roots = (values.narrow(0, 0, rank) / scale).sqrt();
  return {.a = roots.unsqueeze(1) * right.narrow(0, 0, rank), .b = left.narrow(1, 0, rank) * roots};
}

Decomposition Olora(const at::Tensor& weight, int64_t rank) {
  const auto [q, r] = at::linalg_qr(weight);
  return {.a = r.narrow(0, 0, rank), .b = q.narrow(1, 0, rank)};
}

// One module of the files: a weight with its adapter.
class Module {
 public:
  Module(std::string name, const std::map<std::string, FileTensorOf>& tensors, const AdapterStart& start)
      : name_(std::move(name)), start_(start) {
    const auto find = [&](const char* ending) {
      const auto found = tensors.find(name_ + ending);
      return found == tensors.end() ? FileTensorOf{} : found->second;
    };
    weight_ = find(".weight"), a_ = find(".lora_A.weight"), b_ = find(".lora_B.weight");
    magnitude_ = find(".lora_magnitude_vector");
    TRIREME_CHECK(weight_.tensor != nullptr && b_.tensor != nullptr) << name_ << " has no weight or no B on this rank";
  }

  // `computes`: this rank decomposes it.
  void Start(bool computes) {
    const at::Tensor whole = Gathered(weight_, start_);
    if (magnitude_.tensor != nullptr) return Scatter(whole.square().sum(1).sqrt(), magnitude_, start_);
    const Decomposition adapter = start_.initial == nullptr ? Shared(whole, computes) : Saved(whole);
    Scatter(adapter.a, a_, start_);
    Scatter(adapter.b, b_, start_);
    Scatter(whole - at::mm(adapter.b, adapter.a) * Scale(), weight_, start_);
  }

 private:
  double Scale() const { return start_.adapter.ScaleOf(start_.adapter.modules.at(name_)); }

  // In the precision that weights have here, so that what they lose is what adapters get.
  at::Tensor Rounded(const at::Tensor& factor, const at::Tensor& like) const {
    return factor.to(weight_.entry->weight.value.scalar_type()).to(like.options()).contiguous();
  }

  Decomposition Shared(const at::Tensor& whole, bool computes) const {
    const int64_t rank = a_.tensor->shape[0];
    Decomposition adapter{.a = at::zeros(a_.tensor->shape, whole.options()),
                          .b = at::zeros(b_.tensor->shape, whole.options())};
    if (computes) {
      const Decomposition found = Decomposed(whole.cpu(), rank);
      adapter = {.a = Rounded(found.a, whole), .b = Rounded(found.b, whole)};
    }
    AllReduce(adapter.a, start_.stage);
    AllReduce(adapter.b, start_.stage);
    return adapter;
  }

  Decomposition Decomposed(const at::Tensor& weight, int64_t rank) const {
    const std::string& how = start_.adapter.init;
    if (how == "olora") return Olora(weight, rank);
    const int64_t iterations = how.starts_with(kNiter) ? std::stoll(how.substr(kNiter.size())) : 0;
    return Pissa(weight, rank, Scale(), iterations, RandomStream(start_.seed, name_));
  }

  Decomposition Saved(const at::Tensor& whole) const {
    const auto read = [&](const HfTensor& tensor) {
      const TensorView& view = start_.initial->Find(tensor.name);
      at::Tensor values = at::empty(tensor.shape, at::kFloat);
      Convert(view.dtype, view.bytes.data(), DType::kFp32, values.data_ptr(), static_cast<size_t>(values.numel()));
      return values.to(whole.device());
    };
    return {.a = read(*a_.tensor), .b = read(*b_.tensor)};
  }

  const std::string name_;
  const AdapterStart& start_;
  FileTensorOf weight_, a_, b_, magnitude_;
};

}  // namespace

void StartAdapters(const std::vector<Weights::Entry*>& entries, const AdapterStart& start) {
  constexpr std::string_view kFirst = ".lora_A.weight";
  std::map<std::string, FileTensorOf> tensors;
  for (Weights::Entry* entry : entries) {
    for (const HfTensor& tensor : entry->parameter.hf) tensors[tensor.name] = {entry, &tensor};
  }
  int turn = 0;
  for (const auto& [name, tensor] : tensors) {
    if (!name.ends_with(kFirst)) continue;
    Module module(name.substr(0, name.size() - kFirst.size()), tensors, start);
    module.Start(turn++ % start.stage.size() == start.stage.rank());
  }
}

}  // namespace trireme
