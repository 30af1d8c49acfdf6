// A rank is a mixed-radix number with one digit per axis; everything here is arithmetic on those digits.
#include "core/plan/mesh.h"

#include <algorithm>
#include <iomanip>
#include <limits>
#include <sstream>
#include <utility>

#include "core/base/error.h"
#include "core/base/text.h"

namespace trireme {

Mesh::Mesh(std::string name, std::vector<Axis> axes) : name_(std::move(name)), axes_(std::move(axes)) {
  for (const Axis& axis : axes_) {
    if (axis.size < 1) throw InputError(name_, ": axis ", axis.name, " = ", axis.size, "; wanted at least 1");
    if (axis.size > std::numeric_limits<int>::max() / world_) {
      throw InputError(name_, ": axis ", axis.name, " = ", axis.size, " makes too many ranks for an int");
    }
    AddDigit(axis.name, axis.size, world_);
    world_ *= axis.size;
  }
}

void Mesh::AddDigit(const std::string& name, int size, int stride) {
  if (name.empty()) throw InputError(name_, ": an axis has no name");
  if (Has(name)) throw InputError(name_, ": axis ", name, " is named twice; known: ", KnownAxes());
  digits_.push_back({name, size, stride});
}

void Mesh::Factor(std::string_view axis, const Axis& inner, const std::string& outer) {
  const Digit whole = Find(axis);
  if (inner.size < 1 || whole.size % inner.size != 0) {
    throw InputError(name_, ": axis ", axis, " = ", whole.size, " is not divisible by ", inner.name, " = ", inner.size,
                     "; choose a divisor of ", whole.size);
  }
  AddDigit(inner.name, inner.size, whole.stride);
  AddDigit(outer, whole.size / inner.size, whole.stride * inner.size);
  for (Digit& digit : digits_) {
    if (digit.name == axis) digit.factors = {inner.name, outer};
  }
}

std::vector<Axis> Mesh::Atoms() const {
  std::vector<Axis> atoms;
  for (size_t i = 0; i < axes_.size(); ++i) {
    for (const std::string& factor : digits_[i].factors) atoms.push_back({factor, Size(factor)});
    if (digits_[i].factors.empty()) atoms.push_back(axes_[i]);
  }
  return atoms;
}

bool Mesh::Has(std::string_view axis) const {
  return std::any_of(digits_.begin(), digits_.end(), [&](const Digit& digit) { return digit.name == axis; });
}

int Mesh::Size(std::string_view axis) const { return Find(axis).size; }

int Mesh::Coordinate(int rank, std::string_view axis) const {
  CheckRank(rank);
  const Digit& digit = Find(axis);
  return rank / digit.stride % digit.size;
}

std::vector<int> Mesh::Coordinates(int rank) const {
  CheckRank(rank);
  std::vector<int> coordinates;
  for (size_t i = 0; i < axes_.size(); ++i) {
    coordinates.push_back(rank / digits_[i].stride % digits_[i].size);
  }
  return coordinates;
}

int Mesh::RankAt(const std::vector<int>& coordinates) const {
  if (coordinates.size() != axes_.size()) {
    throw InputError(name_, ": ", coordinates.size(), " coordinates given; wanted one for each of ", KnownAxes());
  }
  int rank = 0;
  for (size_t i = 0; i < axes_.size(); ++i) {
    if (coordinates[i] < 0 || coordinates[i] >= axes_[i].size) {
      throw InputError(name_, ": ", axes_[i].name, " coordinate ", coordinates[i], " is out of range; wanted 0 to ",
                       axes_[i].size - 1);
    }
    rank += coordinates[i] * digits_[i].stride;
  }
  return rank;
}

RankList Mesh::Group(int rank, const AxisNames& axes) const {
  CheckRank(rank);
  const std::vector<Digit> selected = Select(axes);
  return MembersFrom(FirstMember(rank, selected), selected);
}

std::vector<RankList> Mesh::Groups(const AxisNames& axes) const {
  const std::vector<Digit> selected = Select(axes);
  std::vector<RankList> groups;
  for (int rank = 0; rank < world_; ++rank) {
    if (FirstMember(rank, selected) == rank) groups.push_back(MembersFrom(rank, selected));
  }
  return groups;
}

int Mesh::FirstMember(int rank, const std::vector<Digit>& selected) {
  int first = rank;
  for (const Digit& digit : selected) first -= rank / digit.stride % digit.size * digit.stride;
  return first;
}

RankList Mesh::MembersFrom(int first, const std::vector<Digit>& selected) {
  RankList members = {first};
  // Each slower digit repeats the list of the faster ones, so the list stays in the mesh's order.
  for (const Digit& digit : selected) {
    const size_t before = members.size();
    for (int i = 1; i < digit.size; ++i) {
      for (size_t j = 0; j < before; ++j) members.push_back(members[j] + i * digit.stride);
    }
  }
  return members;
}

std::string Mesh::ToText() const {
  std::ostringstream text;
  text << name_ << ": " << Counted(world_, "rank") << ", rank = ";
  for (size_t i = 0; i < axes_.size(); ++i) {
    if (i > 0) text << " + " << digits_[i].stride << " ";
    text << axes_[i].name;
  }
  text << "\n  axis     size  stride\n";
  for (const Digit& digit : digits_) {
    text << "  " << std::left << std::setw(8) << digit.name << std::right << std::setw(5) << digit.size << std::setw(8)
         << digit.stride << "\n";
  }
  return text.str();
}

const Mesh::Digit& Mesh::Find(std::string_view axis) const {
  for (const Digit& digit : digits_) {
    if (digit.name == axis) return digit;
  }
  throw InputError(name_, " has no axis '", axis, "'; known: ", KnownAxes());
}

std::vector<Mesh::Digit> Mesh::Select(const AxisNames& axes) const {
  std::vector<Digit> selected;
  for (const std::string& axis : axes) selected.push_back(Find(axis));
  std::stable_sort(selected.begin(), selected.end(),
                   [](const Digit& a, const Digit& b) { return a.stride < b.stride; });
  // Digits of size 1 share a stride with their neighbour and overlap nothing.
  int end = 0;
  for (const Digit& digit : selected) {
    if (digit.size > 1 && digit.stride < end) {
      throw InputError(name_, ": axis ", digit.name, " overlaps another axis of the same group");
    }
    if (digit.size > 1) end = digit.stride * digit.size;
  }
  return selected;
}

void Mesh::CheckRank(int rank) const {
  if (rank < 0 || rank >= world_) {
    throw InputError(name_, ": rank ", rank, " is out of range; wanted 0 to ", world_ - 1);
  }
}

std::string Mesh::KnownAxes() const {
  return Join(digits_, ", ", [](const Digit& digit) { return digit.name; });
}

}  // namespace trireme
