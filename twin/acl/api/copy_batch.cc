// Batches of copies, each with attributes that declare where its two sides are; synchronous or on a stream.
#include <cstdint>
#include <cstring>
#include <vector>

#include "acl/acl.h"
#include "twin/acl/runtime/error.h"
#include "twin/acl/runtime/host_waits.h"
#include "twin/acl/runtime/place.h"
#include "twin/acl/runtime/runtime.h"

using twin::Fail;
using twin::FailNull;
using twin::Location;
using twin::Place;
using twin::Stream;
using twin::Text;

namespace {

struct Piece {
  void* dst;
  const void* src;
  size_t bytes;
};

// The caller's arrays, common to both functions.
struct Batch {
  const char* function;
  void** dsts;
  size_t* dest_max;
  void** srcs;
  size_t* sizes;
  size_t count;
  aclrtMemcpyBatchAttr* attrs;
  size_t* attr_begins;
  size_t attr_count;
  size_t* fail_index;
};

aclError CheckShape(const Batch& batch) {
  if (batch.fail_index == nullptr) return FailNull(batch.function, "failIdx");
  *batch.fail_index = SIZE_MAX;
  if (batch.dsts == nullptr || batch.dest_max == nullptr || batch.srcs == nullptr || batch.sizes == nullptr ||
      batch.attrs == nullptr || batch.attr_begins == nullptr) {
    return FailNull(batch.function, "one of the arrays");
  }
  if (batch.count == 0 || batch.attr_count == 0 || batch.attr_count > batch.count || batch.attr_begins[0] != 0) {
    return Fail(ACL_ERROR_RT_PARAM_INVALID, batch.function,
                Text(batch.count, " copies and ", batch.attr_count,
                     " attributes; wanted at least one of each, no more attributes than copies, the first "
                     "attribute index being 0"));
  }
  for (size_t i = 1; i < batch.attr_count; ++i) {
    if (batch.attr_begins[i] > batch.attr_begins[i - 1] && batch.attr_begins[i] < batch.count) continue;
    return Fail(
        ACL_ERROR_RT_PARAM_INVALID, batch.function,
        Text("attrsIndexes[", i, "] is ", batch.attr_begins[i], "; wanted increasing numbers below ", batch.count));
  }
  return ACL_SUCCESS;
}

aclError CheckSide(const char* function, const char* side, const Location& found, const aclrtMemLocation& said) {
  const bool device_said = said.type == ACL_MEM_LOCATION_TYPE_DEVICE;
  const bool right = device_said ? found.on_device() && found.device == static_cast<int>(said.id)
                                 : found.place == Place::kHost || found.place == Place::kPinnedHost;
  if (right) return ACL_SUCCESS;
  return Fail(ACL_ERROR_RT_PARAM_INVALID, function,
              Text(side, " is ", found.text(), "; its attribute says ",
                   device_said ? Text("device ", said.id) : std::string("host")));
}

aclError CheckPiece(const Batch& batch, size_t index, const aclrtMemcpyBatchAttr& attr, bool* pageable) {
  if (batch.dsts[index] == nullptr || batch.srcs[index] == nullptr) return FailNull(batch.function, "dst or src");
  if (batch.sizes[index] > batch.dest_max[index]) {
    return Fail(ACL_ERROR_RT_PARAM_INVALID, batch.function,
                Text("size is ", batch.sizes[index], " but destMax is ", batch.dest_max[index]));
  }
  const Location dst = twin::Locate(batch.dsts[index], batch.sizes[index]);
  const Location src = twin::Locate(batch.srcs[index], batch.sizes[index]);
  TWIN_TRY(CheckSide(batch.function, "dst", dst, attr.dstLoc));
  TWIN_TRY(CheckSide(batch.function, "src", src, attr.srcLoc));
  if (dst.on_device() == src.on_device()) {
    return Fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, batch.function, "a batch copies between host and device only");
  }
  *pageable |= dst.place == Place::kHost || src.place == Place::kHost;
  return ACL_SUCCESS;
}

// Checks all copies before any is made; *batch.fail_index is the index of the invalid one.
aclError Gather(const Batch& batch, std::vector<Piece>* pieces, bool* pageable) {
  TWIN_TRY(CheckShape(batch));
  size_t attr = 0;
  for (size_t i = 0; i < batch.count; ++i) {
    if (attr + 1 < batch.attr_count && batch.attr_begins[attr + 1] == i) ++attr;
    if (const aclError error = CheckPiece(batch, i, batch.attrs[attr], pageable); error != ACL_SUCCESS) {
      *batch.fail_index = i;
      return error;
    }
    pieces->push_back({batch.dsts[i], batch.srcs[i], batch.sizes[i]});
  }
  return ACL_SUCCESS;
}

void RunAll(const std::vector<Piece>& pieces) {
  for (const Piece& piece : pieces) std::memmove(piece.dst, piece.src, piece.bytes);
}

}  // namespace

aclError aclrtMemcpyBatch(void** dsts, size_t* destMax, void** srcs, size_t* sizes, size_t numBatches,
                          aclrtMemcpyBatchAttr* attrs, size_t* attrsIndexes, size_t numAttrs, size_t* failIdx) {
  std::shared_ptr<twin::Context> context;
  TWIN_TRY(twin::RequireContext(__func__, &context));
  const Batch batch{__func__, dsts, destMax, srcs, sizes, numBatches, attrs, attrsIndexes, numAttrs, failIdx};
  std::vector<Piece> pieces;
  bool pageable = false;
  TWIN_TRY(Gather(batch, &pieces, &pageable));
  twin::CountHostWait(__func__);
  RunAll(pieces);
  return ACL_SUCCESS;
}

aclError aclrtMemcpyBatchAsync(void** dsts, size_t* destMax, void** srcs, size_t* sizes, size_t numBatches,
                               aclrtMemcpyBatchAttr* attrs, size_t* attrsIndexes, size_t numAttrs, size_t* failIndex,
                               aclrtStream stream) {
  std::shared_ptr<Stream> found;
  TWIN_TRY(twin::RequireStream(__func__, stream, &found));
  const Batch batch{__func__, dsts, destMax, srcs, sizes, numBatches, attrs, attrsIndexes, numAttrs, failIndex};
  std::vector<Piece> pieces;
  bool pageable = false;
  TWIN_TRY(Gather(batch, &pieces, &pageable));
  TWIN_TRY(found->Enqueue(
      [pieces = std::move(pieces)] {
        RunAll(pieces);
        return ACL_SUCCESS;
      },
      __func__));
  if (!pageable) return ACL_SUCCESS;
  twin::CountHostWait(__func__);
  return found->Synchronize(__func__);
}
