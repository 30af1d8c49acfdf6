// Compares field by field against rank 0, then the count arrays pair by pair.
#include "twin/hccl/data_path/match.h"

#include "twin/hccl/failure.h"

namespace twin {
namespace {

class Matcher {
 public:
  Matcher(const DataPath& path, const Operation& operation)
      : path_(path), operation_(operation), ranks_(path.group().size) {}

  void Run() const {
    const Post& first = post(0);
    for (uint32_t rank = 1; rank < ranks_; ++rank) {
      const Post& other = post(rank);
      Same("called ", CallName(OperationKind{first.kind}), rank, CallName(OperationKind{other.kind}));
      Same("passed ", TypeName(HcclDataType(first.type)), rank, TypeName(HcclDataType(other.type)));
      if (IsReduction(operation_.kind))
        Same("passed ", ReductionName(HcclReduceOp(first.reduction)), rank,
             ReductionName(HcclReduceOp(other.reduction)));
      if (IsRooted(operation_.kind)) SameNumber("passed root ", first.root, rank, other.root);
      if (HasEqualCounts()) SameNumber("passed count ", first.count, rank, other.count);
    }
    if (HasEqualCounts()) return;
    for (uint32_t i = 0; i < ranks_; ++i)
      for (uint32_t j = 0; j < ranks_; ++j) MatchArrays(i, j);
  }

 private:
  const Post& post(uint32_t rank) const { return path_.board_of(rank).slot(rank, operation_.sequence).post; }
  uint64_t send_count(uint32_t rank, uint32_t to) const {
    return path_.board_of(rank).send_counts(rank, operation_.sequence)[to];
  }
  uint64_t recv_count(uint32_t rank, uint32_t from) const {
    return path_.board_of(rank).recv_counts(rank, operation_.sequence)[from];
  }

  bool HasEqualCounts() const {
    return operation_.kind != OperationKind::kAllGatherV && operation_.kind != OperationKind::kReduceScatterV &&
           operation_.kind != OperationKind::kAllToAllV && operation_.kind != OperationKind::kAllToAllVC;
  }

  void MatchArrays(uint32_t i, uint32_t j) const {
    switch (operation_.kind) {
      case OperationKind::kAllToAllV:
      case OperationKind::kAllToAllVC:
        return SameBlock(i, j, send_count(i, j), recv_count(j, i));
      case OperationKind::kAllGatherV:
        return SameBlock(j, i, post(j).count, recv_count(i, j));
      case OperationKind::kReduceScatterV:
        return SameBlock(i, j, send_count(i, j), post(j).count);
      default:
        return;
    }
  }

  // Names are compared by address: equal values have one name.
  void Same(const char* verb, const char* of_rank_0, uint32_t rank, const char* of_rank) const {
    if (of_rank_0 != of_rank) Refuse(0, std::string(verb) + of_rank_0, rank, std::string(verb) + of_rank);
  }

  void SameNumber(const std::string& verb, uint64_t of_rank_0, uint32_t rank, uint64_t of_rank) const {
    if (of_rank_0 != of_rank) Refuse(0, verb + std::to_string(of_rank_0), rank, verb + std::to_string(of_rank));
  }

  void SameBlock(uint32_t sender, uint32_t receiver, uint64_t sent, uint64_t expected) const {
    if (sent == expected) return;
    Refuse(sender, "sends " + std::to_string(sent) + " elements to rank " + std::to_string(receiver), receiver,
           "expects " + std::to_string(expected) + " from it");
  }

  [[noreturn]] void Refuse(uint32_t rank_a, const std::string& a, uint32_t rank_b, const std::string& b) const {
    throw HcclFailure(HCCL_E_PARA, DescribeOperation(operation_, path_.group().name) + ": the ranks disagree: rank " +
                                       std::to_string(rank_a) + " " + a + ", rank " + std::to_string(rank_b) + " " + b);
  }

  const DataPath& path_;
  const Operation& operation_;
  uint32_t ranks_;
};

}  // namespace

void MatchPosts(const DataPath& path, const Operation& operation) { Matcher(path, operation).Run(); }

}  // namespace twin
