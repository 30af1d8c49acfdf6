// Where each choice of an expert goes among the rows sorted by expert, computed where the choices are: for
// memory of a GPU. parallel/experts/dispatch_plan.h does the same on the host.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

namespace trireme {

struct ExpertPositions {
  at::Tensor positions;  // as the choices, int64; -1: not dispatched
  at::Tensor counts;     // [experts] int64
};

// chosen: int64, experts or -1. Nothing, if no kernel takes them.
std::optional<ExpertPositions> PositionsOnDevice(const at::Tensor& chosen, int64_t experts);

}  // namespace trireme
