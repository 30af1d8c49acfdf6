// PackedFormat: a way in which model files hold a tensor packed, as several tensors under names of their own, and how
// it is decoded. A format is a file with its description and a line in packed_formats.cc; hf_directory.h shows the
// decoded tensors in place of the packed ones. Reading only: packed_writer.h writes.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/safetensors.h"
#include "core/base/json.h"

namespace trireme {

struct PackedFormat {
  // The parts of one tensor.
  struct Parts {
    std::vector<TensorView> views;    // in the order of `endings`; without a shape and bytes for those that are missing
    std::string quantisation_config;  // the text of the directory's quantization_config; empty: there is none

    const TensorView& operator[](size_t index) const { return views[index]; }
    bool Has(size_t index) const { return !views[index].shape.empty(); }
  };

  const char* name;                  // "mxfp4": the quant_method of a quantization_config; others' files are not of it
  std::vector<const char*> endings;  // of the parts' names; what has the first may be a packed tensor of this format
  const char* ending;                // of the decoded tensor's name, in their place
  // Dtype and shape of the decoded tensor. Throws where the parts do not fit together; `where`: the tensor, for
  // messages.
  TensorView (*describe)(const Parts& parts, const std::string& where);
  // Row-major, as described.
  void (*decode)(const Parts& parts, std::span<std::byte> target);
};

const std::vector<PackedFormat>& PackedFormats();

// The text of a config.json without what says that weights are packed.
std::string WithoutQuantisation(const std::string& config, const std::string& where);
// With this quantization_config instead.
std::string WithQuantisation(const std::string& config, const std::string& where, const Json& how);

}  // namespace trireme
