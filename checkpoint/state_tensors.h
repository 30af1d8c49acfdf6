// StateTensors: one state of a checkpoint's trained tensors, such as what adapters started with, by the tensors' names.
#pragma once

#include <string>
#include <vector>

#include "checkpoint/store_reader.h"
#include "checkpoint/tensor_source.h"

namespace trireme {

class StateTensors : public TensorSource {
 public:
  // Of "STATE/NAME" in the checkpoint; `store` outlives it.
  StateTensors(StoreReader& store, std::string state) : store_(store), state_(std::move(state)) {}

  bool Has(const std::string& name) const override { return store_.FindOrNull(KeyOf(name)) != nullptr; }
  const TensorView& Find(const std::string& name) const override;
  TensorView Describe(const std::string& name) const override;
  std::filesystem::path FileOf(const std::string&) const override { return store_.path(); }

 private:
  std::string KeyOf(const std::string& name) const { return state_ + "/" + name; }

  StoreReader& store_;
  const std::string state_;
  mutable TensorView view_;
  mutable std::vector<std::byte> memory_;
};

}  // namespace trireme
