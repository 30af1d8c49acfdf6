#include "train/step/exchange_forecast.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/tensor.h>

#include "core/base/error.h"
#include "core/tensor/device_copies.h"

namespace trireme {

RankNumbers ExchangeForecast::Numbers() {
  counted_.clear();
  std::vector<at::Tensor> largest;
  std::vector<int64_t> rooms;
  for (auto& [name, layer] : layers_) {
    if (!layer.largest().defined()) continue;
    counted_.push_back(&layer);
    largest.push_back(layer.largest());
    rooms.insert(rooms.end(), layer.rooms().begin(), layer.rooms().end());
  }
  RankNumbers numbers{.summed = {{kNoRoom, at::Tensor()}}};
  if (counted_.empty()) return numbers;  // a stage without experts
  const at::Tensor all = at::cat(largest);
  numbers.own = all.to(at::kFloat);
  if (rooms.empty()) return numbers;
  TRIREME_CHECK(std::ssize(rooms) == all.numel()) << rooms.size() << " rooms for " << all.numel() << " numbers";
  numbers.summed[kNoRoom] = all.gt(Upload(at::tensor(rooms, at::kLong), device_)).sum().to(at::kFloat);
  return numbers;
}

void ExchangeForecast::Learn(std::span<const float> own) {
  for (ExpectedRows* layer : counted_) {
    const auto count = static_cast<size_t>(layer->largest().numel());
    layer->Learn(own.first(count));
    own = own.subspan(count);
  }
  TRIREME_CHECK(own.empty()) << own.size() << " numbers of no layer";
  counted_.clear();
}

void ExchangeForecast::Forget() {
  for (auto& [name, layer] : layers_) layer.Forget();
}

}  // namespace trireme
