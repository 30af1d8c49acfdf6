// Mesh: the ranks of a job on a grid of named axes, fastest first as in Megatron. Answers who shares a group
// with whom. Knows no communicator, no tensor and no configuration.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace trireme {

struct Axis {
  std::string name;
  int size = 1;
};

using AxisNames = std::vector<std::string>;
using RankList = std::vector<int>;

class Mesh {
 public:
  // Fastest axis first. Rejects sizes below 1 and duplicate names. `name` appears in messages ("dense grid").
  Mesh(std::string name, std::vector<Axis> axes);

  const std::string& name() const { return name_; }
  const std::vector<Axis>& axes() const { return axes_; }
  int world() const { return world_; }

  // Names the factors of an axis: Factor("cp", {"ulysses", 2}, "ring") makes cp = ulysses +
  // 2 ring. The axis itself remains; a group may span the axis or either factor.
  void Factor(std::string_view axis, const Axis& inner, const std::string& outer);

  // The axes with factored ones replaced by their factors.
  std::vector<Axis> Atoms() const;

  bool Has(std::string_view axis) const;
  int Size(std::string_view axis) const;
  int Coordinate(int rank, std::string_view axis) const;
  std::vector<int> Coordinates(int rank) const;           // one for each of axes()
  int RankAt(const std::vector<int>& coordinates) const;  // one for each of axes()

  // The ranks that differ from `rank` on these axes only, in mesh order regardless of the order of
  // `axes`.
  RankList Group(int rank, const AxisNames& axes) const;
  // All such groups, by ascending first rank; each rank is in exactly one.
  std::vector<RankList> Groups(const AxisNames& axes) const;

  // A table of the axes, with the formula for the rank.
  std::string ToText() const;

 private:
  struct Digit {  // a named digit of the rank: (rank / stride) % size
    std::string name;
    int size;
    int stride;
    std::vector<std::string> factors = {};  // names of others, inner first
  };

  const Digit& Find(std::string_view axis) const;
  std::vector<Digit> Select(const AxisNames& axes) const;
  static int FirstMember(int rank, const std::vector<Digit>& selected);
  static RankList MembersFrom(int first, const std::vector<Digit>& selected);
  void CheckRank(int rank) const;
  void AddDigit(const std::string& name, int size, int stride);
  std::string KnownAxes() const;

  std::string name_;
  std::vector<Axis> axes_;
  std::vector<Digit> digits_;  // axes_ first, then the factors
  int world_ = 1;
};

}  // namespace trireme
