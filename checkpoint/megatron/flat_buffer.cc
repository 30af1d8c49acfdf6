#include "checkpoint/megatron/flat_buffer.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <optional>
#include <utility>

#include "checkpoint/elements.h"
#include "core/base/error.h"

namespace trireme {
namespace {

constexpr int64_t kAlignment = 64;  // of a parameter in its bucket, in elements
constexpr int64_t kPrefix = 16;     // elements that are compared first

StridedTensor Part1d(const StridedTensor& whole, int64_t begin, int64_t count) {
  return {whole.dtype, {count}, whole.strides, Advance(whole.data, whole.dtype, begin * whole.strides[0])};
}

// One walk through a buffer.
class Search {
 public:
  Search(const FlatBuffer& masters, const std::vector<LocalParameter>& parameters, std::string where)
      : masters_(masters), parameters_(parameters), where_(std::move(where)), taken_(parameters.size()) {
    for (const LocalParameter& parameter : parameters_) {
      std::vector<std::byte> elements = WeightsOf(parameter);
      elements.resize(static_cast<size_t>(PrefixOf(parameter) * ByteSize(parameter.dtype)));
      prefixes_.push_back(std::move(elements));
    }
  }

  std::vector<FoundParameter> Walk(const std::vector<int64_t>& buckets) {
    int64_t bucket = 0, at = 0;
    while (at < masters_.size()) {
      if (std::ranges::binary_search(buckets, at)) bucket = at;
      const int64_t aligned = bucket + (at - bucket + kAlignment - 1) / kAlignment * kAlignment;
      std::optional<size_t> found = Take(aligned);
      if (found) {
        at = aligned;
      } else if (aligned != at && (found = Take(at))) {  // a bucket ends without padding
        bucket = at;
      } else {
        Refuse(at);
      }
      result_.push_back({*found, at});
      at += Elements(parameters_[*found].shape);
    }
    return result_;
  }

 private:
  static int64_t PrefixOf(const LocalParameter& parameter) { return std::min(kPrefix, Elements(parameter.shape)); }

  static std::vector<std::byte> WeightsOf(const LocalParameter& parameter) {
    std::vector<std::byte> elements(static_cast<size_t>(Elements(parameter.shape) * ByteSize(parameter.dtype)));
    parameter.read(elements.data());
    return elements;
  }

  std::vector<std::byte> Rounded(int64_t begin, int64_t count, DType dtype) const {
    std::vector<float> masters(static_cast<size_t>(count));
    masters_.Read(begin, count, masters.data(), where_);
    std::vector<std::byte> rounded(masters.size() * static_cast<size_t>(ByteSize(dtype)));
    Convert(DType::kFp32, masters.data(), dtype, rounded.data(), masters.size());
    return rounded;
  }

  // Whether the first elements are those of the parameter; `start` has what lies there, by type.
  bool MayLieAt(size_t i, int64_t begin, std::map<DType, std::vector<std::byte>>& start) const {
    const LocalParameter& parameter = parameters_[i];
    const int64_t count = Elements(parameter.shape), left = masters_.size() - begin;
    if (taken_[i] || count == 0 || count > left) return false;
    std::vector<std::byte>& elements = start[parameter.dtype];
    if (elements.empty()) elements = Rounded(begin, std::min(kPrefix, left), parameter.dtype);
    return std::equal(prefixes_[i].begin(), prefixes_[i].end(), elements.begin());
  }

  // The next parameter in the buffer's order if it lies there, otherwise the first after it that does.
  std::optional<size_t> Take(int64_t begin) {
    if (begin >= masters_.size()) return std::nullopt;
    std::map<DType, std::vector<std::byte>> start;
    const size_t count = parameters_.size();
    for (size_t step = 0; step < count; ++step) {
      const size_t i = (next_ + count - step) % count;
      if (!MayLieAt(i, begin, start)) continue;
      const LocalParameter& parameter = parameters_[i];
      if (Rounded(begin, Elements(parameter.shape), parameter.dtype) != WeightsOf(parameter)) continue;
      taken_[i] = true;
      next_ = (i + count - 1) % count;
      return i;
    }
    return std::nullopt;
  }

  [[noreturn]] void Refuse(int64_t at) const {
    throw InputError(where_, ": the optimizer's masters from element ", at, " of ", masters_.size(),
                     " are not the masters of any weight that is not found yet, '",
                     result_.empty() ? "none" : parameters_[result_.back().parameter].name,
                     "' being the last found; weights and optimizer are not of the same step, or the parameters are "
                     "stored in a way that is not known here; convert the weights alone, without --optimizer");
  }

  const FlatBuffer& masters_;
  const std::vector<LocalParameter>& parameters_;
  std::string where_;
  std::vector<bool> taken_;
  std::vector<std::vector<std::byte>> prefixes_;
  size_t next_ = parameters_.size() - 1;
  std::vector<FoundParameter> result_;
};

}  // namespace

void FlatBuffer::Add(int64_t begin, int64_t count, std::function<StridedTensor()> open) {
  const auto after = std::ranges::find_if(parts_, [&](const Part& part) { return part.begin > begin; });
  parts_.insert(after, {begin, count, std::move(open)});
}

int64_t FlatBuffer::size() const { return parts_.empty() ? 0 : parts_.back().begin + parts_.back().count; }

void FlatBuffer::Read(int64_t begin, int64_t count, float* target, const std::string& where) const {
  int64_t done = 0;
  auto part = std::ranges::upper_bound(parts_, begin, {}, &Part::begin);
  if (part != parts_.begin()) --part;
  for (; part != parts_.end() && done < count; ++part) {
    const int64_t from = begin + done - part->begin;
    if (from < 0) break;
    if (from >= part->count) continue;
    const int64_t here = std::min(count - done, part->count - from);
    const StridedTensor view = Part1d(part->open(), from, here);
    CopyBox({here}, {view.dtype, view.data, view.strides}, {DType::kFp32, target + done, {1}});
    done += here;
  }
  if (done < count)
    throw InputError(where, ": of the optimizer's buffer of ", size(), " elements ", begin + done, " to ",
                     begin + count, " are missing; files of other ranks are missing");
}

StridedTensor FlatBuffer::View(int64_t begin, int64_t count) const {
  for (const Part& part : parts_) {
    if (begin < part.begin || begin + count > part.begin + part.count) continue;
    return Part1d(part.open(), begin - part.begin, count);
  }
  return {};
}

std::vector<FoundParameter> FindParameters(const FlatBuffer& masters, const std::vector<LocalParameter>& parameters,
                                           const std::vector<int64_t>& buckets, const std::string& where) {
  if (parameters.empty()) throw InputError(where, ": has an optimizer's states and no weights");
  return Search(masters, parameters, where).Walk(buckets);
}

}  // namespace trireme
