#include "checkpoint/tensor_list.h"

#include <algorithm>
#include <cmath>
#include <iomanip>
#include <sstream>

#include "checkpoint/elements.h"
#include "core/base/error.h"
#include "core/io/crc32c.h"

namespace trireme {
namespace {

std::vector<float> AsFloat(const ListedTensor& tensor, std::span<const std::byte> bytes) {
  std::vector<float> wide(static_cast<size_t>(Elements(tensor.shape)));
  Convert(tensor.dtype, bytes.data(), DType::kFp32, wide.data(), wide.size());
  return wide;
}

}  // namespace

TensorList::TensorList(const std::filesystem::path& path) : file_(OpenTensorFile(path)), tensors_(file_->List()) {
  for (size_t i = 0; i < tensors_.size(); ++i) by_name_.emplace(tensors_[i].name, i);
}

const ListedTensor* TensorList::Find(const std::string& name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : &tensors_[found->second];
}

std::span<const std::byte> TensorList::Read(const ListedTensor& tensor) { return file_->Read(tensor); }

uint32_t TensorList::Digest(const ListedTensor& tensor) {
  const std::span<const std::byte> bytes = Read(tensor);
  return Crc32c(bytes.data(), bytes.size());
}

std::string DigestText(uint32_t digest) {
  std::ostringstream text;
  text << std::hex << std::setfill('0') << std::setw(8) << digest;
  return text.str();
}

std::string CompareTensors(TensorList& a, const ListedTensor& one, TensorList& b, const ListedTensor& other) {
  const std::string types = one.dtype == other.dtype ? "" : Concat(Name(one.dtype), " and ", Name(other.dtype), "; ");
  const std::span<const std::byte> left = a.Read(one), right = b.Read(other);
  if (types.empty() && std::equal(left.begin(), left.end(), right.begin(), right.end())) return "";
  if (!CanConvert(one.dtype, DType::kFp32) || !CanConvert(other.dtype, DType::kFp32)) return types + "bytes differ";
  const std::vector<float> x = AsFloat(one, left), y = AsFloat(other, right);
  int64_t unequal = 0;
  double largest = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    if (x[i] == y[i] || (std::isnan(x[i]) && std::isnan(y[i]))) continue;
    ++unequal;
    const double distance = std::abs(static_cast<double>(x[i]) - y[i]);
    largest = distance > largest || std::isnan(distance) ? distance : largest;
  }
  if (unequal == 0) return types.empty() ? "" : types + "equal values";
  return Concat(types, unequal, " of ", x.size(), " elements differ, by at most ", largest);
}

}  // namespace trireme
