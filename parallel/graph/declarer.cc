#include "parallel/graph/declarer.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/base/error.h"
#include "core/base/text.h"
#include "parallel/graph/low_rank.h"

namespace trireme {
namespace {

constexpr char kTensorAxis[] = "tp";
constexpr char kExpertAxis[] = "ep";
constexpr char kExpertTensorAxis[] = "etp";
constexpr char kExpertPlaceholder[] = "{expert}";  // placeholder in the names of experts' tensors
const Initial kOnes{Initial::Kind::kOnes};
const Initial kZeros{Initial::Kind::kZeros};

std::vector<std::string> RolesOf(const std::vector<std::string>& parts, const char* kind) {
  std::vector<std::string> roles;
  for (const std::string& part : parts) roles.push_back(part + kind);
  return roles;
}

}  // namespace

void Declarer::SplitNorm(const std::string& role, Block block) {
  Add(PlainParameter(Declare(role, {SplitDim(kTensorAxis, {block})}), Hf(role), kOnes), {role});
}

void Declarer::PerHead(const std::string& role, int64_t heads, const Initial& initial) {
  Add(PlainParameter(Declare(role, {SplitDim(kTensorAxis, {OwnHeads(heads, 1)})}), Hf(role), initial), {role});
}

void Declarer::Convolution(const std::string& role, std::vector<Block> blocks, int64_t taps) {
  const std::vector<std::string> names(blocks.size(), Hf(role));
  Add(StackedParameter(Declare(role, {SplitDim(kTensorAxis, std::move(blocks)), WholeDim(1), WholeDim(taps)}), names,
                       {Initial::Kind::kUniform, 1 / std::sqrt(static_cast<double>(taps))}),
      {role});
}

void Declarer::AnyNorm(const std::string& role, int64_t size, bool layer_norm) {
  Norm(role + ".weight", size);
  if (!layer_norm) return;
  auto declaration = Declare(role + ".bias", {WholeDim(size)});
  if (sequence_) declaration.partial_gradient = {kTensorAxis};
  Add(PlainParameter(std::move(declaration), Hf(role + ".bias"), kZeros), {role + ".bias"});
}

void Declarer::Whole(const std::string& role, const Shape& shape, bool zero) {
  std::vector<Dim> dims;
  for (const int64_t size : shape) dims.push_back(WholeDim(size));
  Add(PlainParameter(Declare(role, std::move(dims)), Hf(role), zero ? kZeros : Normal()), {role});
}

void Declarer::Scale(const std::string& role, int64_t size, double start) {
  Add(PlainParameter(Declare(role, {WholeDim(size)}), Hf(role), {Initial::Kind::kConstant, start}), {role});
}

void Declarer::Columns(const std::string& role, const std::vector<std::string>& parts, std::vector<Block> blocks,
                       int64_t inputs, bool bias) {
  Add(StackedParameter(Declare(role + ".weight", {SplitDim(kTensorAxis, blocks), WholeDim(inputs)}),
                       HfOf(parts, ".weight"), Normal()),
      RolesOf(parts, ".weight"));
  if (!bias) return;
  Add(StackedParameter(Declare(role + ".bias", {SplitDim(kTensorAxis, std::move(blocks))}), HfOf(parts, ".bias"),
                       kZeros),
      RolesOf(parts, ".bias"));
}

void Declarer::PerHead(const std::string& role, Block heads) {
  Add(PlainParameter(Declare(role, {SplitDim(kTensorAxis, {heads})}), Hf(role), Normal()), {role});
}

void Declarer::Rows(const std::string& role, int64_t outputs, Block inputs, bool bias) {
  Add(PlainParameter(Declare(role + ".weight", {WholeDim(outputs), SplitDim(kTensorAxis, {inputs})}),
                     Hf(role + ".weight"), Normal()),
      {role + ".weight"});
  if (!bias) return;
  auto declaration = Declare(role + ".bias", {WholeDim(outputs)});
  if (sequence_) declaration.partial_gradient = {kTensorAxis};
  Add(PlainParameter(std::move(declaration), Hf(role + ".bias"), kZeros), {role + ".bias"});
}

void Declarer::OnSharedTokens(const std::string& role, int64_t outputs, int64_t inputs) {
  auto declaration = Declare(role, {WholeDim(outputs), WholeDim(inputs)});
  declaration.partial_gradient = {kTensorAxis};
  Add(PlainParameter(std::move(declaration), Hf(role), Normal()), {role});
}

void Declarer::BiasOnSharedTokens(const std::string& role, int64_t size) {
  auto declaration = Declare(role, {WholeDim(size)});
  declaration.partial_gradient = {kTensorAxis};
  Add(PlainParameter(std::move(declaration), Hf(role), Normal()), {role});
}

void Declarer::OnAllTokens(const std::string& role, int64_t outputs, int64_t inputs) {
  Add(PlainParameter(Declare(role, {WholeDim(outputs), WholeDim(inputs)}), Hf(role), Normal()), {role});
}

void Declarer::ValueHead(const std::string& role, int64_t inputs) {
  OnAllTokens(role + ".weight", 1, inputs);
  Add(PlainParameter(Declare(role + ".bias", {WholeDim(1)}), Hf(role + ".bias"), kZeros), {role + ".bias"});
}

void Declarer::ExpertColumns(const std::string& role, const std::vector<std::string>& parts, int64_t experts,
                             int64_t rows, int64_t inputs) {
  const Block block{.size = rows, .parts = split_.expert_tensor};
  auto declaration = DeclareExperts(
      role, experts, {SplitDim(kExpertTensorAxis, std::vector<Block>(parts.size(), block)), WholeDim(inputs)});
  std::vector<HfTensor> tensors;
  const int64_t all = static_cast<int64_t>(parts.size()) * rows;
  if (AreStacked(parts.front())) {
    tensors.push_back(
        {Hf(parts.front()), {experts, inputs, all}, {{0, 0, 0}, {experts, all, inputs}}, /*transposed=*/true});
  }
  for (int64_t expert = 0; expert < experts && !AreStacked(parts.front()); ++expert) {
    for (size_t i = 0; i < parts.size(); ++i) {
      tensors.push_back({HfOfExpert(parts[i], expert),
                         {rows, inputs},
                         {{expert, static_cast<int64_t>(i) * rows, 0}, {1, rows, inputs}}});
    }
  }
  Add({std::move(declaration), std::move(tensors), Normal()}, parts);
}

void Declarer::ExpertRows(const std::string& role, int64_t experts, int64_t outputs, int64_t inputs) {
  const Block block{.size = inputs, .parts = split_.expert_tensor};
  auto declaration = DeclareExperts(role, experts, {WholeDim(outputs), SplitDim(kExpertTensorAxis, {block})});
  std::vector<HfTensor> tensors;
  if (AreStacked(role)) {
    tensors.push_back(
        {Hf(role), {experts, inputs, outputs}, {{0, 0, 0}, {experts, outputs, inputs}}, /*transposed=*/true});
  }
  for (int64_t expert = 0; expert < experts && !AreStacked(role); ++expert) {
    tensors.push_back({HfOfExpert(role, expert), {outputs, inputs}, {{expert, 0, 0}, {1, outputs, inputs}}});
  }
  Add({std::move(declaration), std::move(tensors), Normal()}, {role});
}

void Declarer::StackedExpertColumns(const std::string& role, int64_t experts, int64_t rows, int64_t inputs, bool bias) {
  constexpr int64_t kGateAndUp = 2;
  const Block block{.size = kGateAndUp * rows, .parts = split_.expert_tensor, .unit = kGateAndUp};
  AddExpertStack(role, experts, SplitDim(kExpertTensorAxis, {block}), WholeDim(inputs), bias);
}

void Declarer::StackedExpertRows(const std::string& role, int64_t experts, int64_t outputs, int64_t inputs, bool bias) {
  const Block block{.size = inputs, .parts = split_.expert_tensor};
  AddExpertStack(role, experts, WholeDim(outputs), SplitDim(kExpertTensorAxis, {block}), bias);
}

void Declarer::AddExpertStack(const std::string& role, int64_t experts, Dim outputs, Dim inputs, bool bias) {
  const std::string weight = role + ".weight";
  Parameter stack = PlainParameter(DeclareExperts(weight, experts, {outputs, std::move(inputs)}), Hf(weight), Normal());
  HfTensor& file = stack.hf.front();
  std::swap(file.shape[1], file.shape[2]);
  file.transposed = true;
  Add(std::move(stack), {weight});
  if (!bias) return;
  const std::string own = role + ".bias";
  Add(PlainParameter(DeclareExperts(own, experts, {std::move(outputs)}), Hf(own), kZeros), {own});
}

void Declarer::Untrained(const std::string& role, int64_t size, bool in_row) {
  auto declaration = Declare(role, {WholeDim(size)});
  declaration.dtype = DType::kFp32;
  list_.push_back(PlainParameter(std::move(declaration), Hf(role), kZeros));
  if (in_row) list_.back().hf.front().shape = {1, size};
  list_.back().trained = false;
  list_.back().is_buffer = true;
}

void Declarer::Vocabulary(const std::string& role, int64_t vocabulary, int64_t hidden) {
  const Block rows{.size = vocabulary, .parts = tensor_, .padding = PaddingTo(vocabulary, tensor_)};
  Parameter parameter =
      PlainParameter(Declare(role, {SplitDim(kTensorAxis, {rows}), WholeDim(hidden)}), Hf(role), Normal());
  const auto repeated = layer_.repeated.find(role);
  if (repeated != layer_.repeated.end()) parameter.hf.front().repeated = repeated->second;
  Add(std::move(parameter), {role});
}

Block Declarer::OwnHeads(int64_t heads, int64_t dim) const {
  if (heads % tensor_ != 0) {
    throw InputError(layer_.name, ": ", heads, " attention heads are not divisible by parallel.tensor = ", tensor_,
                     "; choose a tensor size that divides ", heads);
  }
  return {.size = heads * dim, .parts = tensor_, .unit = dim};
}

Block Declarer::Heads(const char* what, int64_t heads, int64_t dim) const {
  if (heads % tensor_ != 0 && tensor_ % heads != 0) {
    throw InputError(layer_.name, ": ", heads, " ", what, " are not divisible by parallel.tensor = ", tensor_,
                     "; choose a tensor size that divides ", heads, " or is a multiple of it");
  }
  const auto parts = static_cast<int>(std::min<int64_t>(tensor_, heads));
  return {.size = heads * dim, .parts = parts, .unit = dim};
}

std::vector<Parameter> Declarer::Take() {
  for (Parameter& adapter : adapters_) list_.push_back(std::move(adapter));
  return std::move(list_);
}

void Declarer::AddNorm(const std::string& role, int64_t size, bool partial, double offset) {
  auto declaration = Declare(role, {WholeDim(size)});
  if (partial) declaration.partial_gradient = {kTensorAxis};
  Add(PlainParameter(std::move(declaration), Hf(role), offset == 0 ? kOnes : kZeros), {role});
}

void Declarer::Add(Parameter parameter, const std::vector<std::string>& roles) {
  parameter.trained = IsTrained(parameter, roles);
  if (AreListed(layer_.packed, parameter, roles)) parameter.packed = graph_.packing;
  parameter.cast_to_fp8 = AreListed(layer_.cast, parameter, roles);
  std::vector<LowRank> parts;
  for (size_t i = 0; i < roles.size(); ++i) {
    const std::string& role = roles[i];
    if (i > 0 && Hf(role) == Hf(roles[i - 1])) continue;  // one module, so one adapter
    const auto found = layer_.low_rank.find(role.substr(0, role.rfind('.')));
    parts.push_back(found == layer_.low_rank.end() || !role.ends_with(".weight") ? LowRank{} : found->second);
  }
  list_.push_back(std::move(parameter));
  if (std::all_of(parts.begin(), parts.end(), [](const LowRank& part) { return part.rank == 0; })) return;
  for (Parameter& one : LowRankAdapters(list_.back(), parts)) adapters_.push_back(std::move(one));
}

bool Declarer::IsTrained(const Parameter& parameter, const std::vector<std::string>& roles) const {
  if (!layer_.trained) return true;
  std::vector<std::string> trained, frozen;
  for (const std::string& role : roles) {
    (layer_.trained->contains(role) ? trained : frozen).push_back(Hf(role));
  }
  if (trained.empty() || frozen.empty()) return frozen.empty();
  throw InputError(parameter.declaration.name, ": ", Join(trained), " cannot be trained without ", Join(frozen),
                   ": they are fused into one matrix; name all of them or none");
}

bool Declarer::AreListed(const std::set<std::string>& projections, const Parameter& parameter,
                         const std::vector<std::string>& roles) const {
  std::vector<std::string> packed, plain;
  for (const std::string& role : roles) {
    const bool listed = role.ends_with(".weight") && projections.contains(role.substr(0, role.rfind('.')));
    (listed ? packed : plain).push_back(Hf(role));
  }
  if (packed.empty() || plain.empty()) return plain.empty();
  const bool fp8 = graph_.packing->kind == PackedStorage::Kind::kFp8;
  throw InputError(fp8 ? "model.fp8_skip: " : "model.quantise_except: ", Join(packed), " cannot be packed without ",
                   Join(plain), ": they are fused into ", parameter.declaration.name, "; name all of them or none");
}

ParameterDeclaration Declarer::Declare(const std::string& role, std::vector<Dim> dims) const {
  return {.name = layer_.name + "." + role, .dtype = graph_.dtype, .dims = std::move(dims)};
}

ParameterDeclaration Declarer::DeclareExperts(const std::string& role, int64_t experts,
                                              std::vector<Dim> of_each) const {
  if (experts % split_.expert != 0) {
    throw InputError(layer_.name, ": ", experts, " experts are not divisible by parallel.expert = ", split_.expert,
                     "; choose a size that divides ", experts);
  }
  of_each.insert(of_each.begin(), SplitDim(kExpertAxis, {{.size = experts, .parts = split_.expert}}));
  auto declaration = Declare(role, std::move(of_each));
  declaration.grid = GridKind::kExpert;
  return declaration;
}

const std::string& Declarer::Hf(const std::string& role) const {
  const auto found = layer_.hf_names.find(role);
  TRIREME_CHECK(found != layer_.hf_names.end()) << layer_.name << " has no Hugging Face name for " << role;
  return found->second;
}

bool Declarer::AreStacked(const std::string& role) const {
  return Hf(role).find(kExpertPlaceholder) == std::string::npos;
}

std::string Declarer::HfOfExpert(const std::string& role, int64_t expert) const {
  std::string name = Hf(role);
  const size_t place = name.find(kExpertPlaceholder);
  TRIREME_CHECK(place != std::string::npos) << name << " has no {expert} placeholder for the expert's number";
  return name.replace(place, sizeof(kExpertPlaceholder) - 1, std::to_string(expert));
}

std::vector<std::string> Declarer::HfOf(const std::vector<std::string>& parts, const char* kind) const {
  std::vector<std::string> names;
  for (const std::string& role : RolesOf(parts, kind)) names.push_back(Hf(role));
  return names;
}

}  // namespace trireme
