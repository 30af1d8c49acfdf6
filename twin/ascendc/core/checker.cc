// Bounds, uninitialised reads, and the order of pipes. A pipe begins its own instructions in order; whether
// another pipe's are complete, it knows only by a flag, a queue or a barrier, and the vector unit knows no more
// of its own. Each pipe has a clock and a vector of the times up to which it has seen all pipes complete; each
// granule of the buffers (4 bytes, 32 of the cube core's) records its last writer and reader, and when they touched it.
#include "twin/ascendc/include/ascendc/checker.h"

#include <algorithm>
#include <cstring>

#include "twin/include/twin/launch.h"

namespace twin::ascendc {
namespace {

constexpr const char* kPipeNames[kPipes] = {"PIPE_S",    "PIPE_V",    "PIPE_M",   "PIPE_MTE1",
                                            "PIPE_MTE2", "PIPE_MTE3", "PIPE_ALL", "PIPE_FIX"};
constexpr size_t kGlobalWritesKept = 64;

constexpr uint32_t kUbGranules = kUbBytes / 4;
constexpr uint32_t GranuleOf(uint32_t offset) {
  return offset < kUbBytes ? offset / 4 : kUbGranules + (offset - kUbBytes) / kBlockBytes;
}
constexpr uint32_t OffsetOf(uint32_t granule) {
  return granule < kUbGranules ? granule * 4 : kUbBytes + (granule - kUbGranules) * kBlockBytes;
}

constexpr bool BesideScalar(int pipe) { return pipe == PIPE_V || pipe == PIPE_MTE2 || pipe == PIPE_MTE3; }

}  // namespace

void Checker::Begin(const Core& core) {
  core_ = &core;
  buffers_.clear();
  global_writes_.clear();
  written_.resize(kLocalBytes);
  std::memset(written_.data(), 0, cube_used_ ? kLocalBytes : kUbBytes);
  granules_.resize(std::max<size_t>(granules_.size(), kUbGranules));
  origins_.clear();
  units_.clear();
  copies_ = 0;
  cube_used_ = reset_ = false;
  now_.assign(kPipes, 0);
  for (Clock& seen : seen_) seen.assign(kPipes, 0);
  for (auto& of_source : flags_)
    for (auto& of_target : of_source)
      for (Flag& flag : of_target) flag = {};
  for (Flag& flag : cross_core_) flag = {};
  touched_.clear();
  segment_ = 0;
  blocks_seen_ = nullptr;
}

void Checker::End() {
  for (const Buffer& buffer : buffers_) {
    if (buffer.state == State::kAllocated || buffer.state == State::kQueued || buffer.state == State::kTaken) {
      Complain(buffer.place, buffer.name + " is " + (buffer.state == State::kQueued ? "still queued" : "never freed") +
                                 " when the kernel ends");
    }
  }
  for (int source = 0; source < kPipes; ++source)
    for (int target = 0; target < kPipes; ++target)
      for (int id = 0; id < kEventIds; ++id) {
        const Flag& flag = flags_[source][target][id];
        if (!flag.set) continue;
        Complain(flag.place, std::string("flag ") + kPipeNames[source] + " to " + kPipeNames[target] + ", id " +
                                 std::to_string(id) + ", is set and never waited for");
      }
  for (int id = 0; id < kCrossCoreFlags; ++id) {
    if (core_->cross_core[id].sets > core_->cross_core[id].waits)
      Complain(cross_core_[id].place, "cross-core flag " + std::to_string(id) + " is set and never waited for");
  }
  FindRaces();
}

void Checker::Reset() { reset_ = true; }

void Checker::Complain(Place place, const std::string& text) const {
  ascendc::Fail(place.function, text, place.file, place.line);
}

void Checker::AddBuffers(const uint8_t* begin, uint32_t bytes, uint32_t count, const char* kind, Place place) {
  const auto first = static_cast<uint32_t>(begin - core_->ub);
  if (reset_) {
    buffers_.clear();
    units_.clear();
    origins_.clear();
    ++epoch_;
    reset_ = false;
  }
  if (first >= kUbBytes && !cube_used_) {
    cube_used_ = true;
    granules_.resize(GranuleOf(kLocalBytes - 1) + 1);
  }
  const bool queue = std::strcmp(kind, "TBuf") != 0;
  for (uint32_t i = 0; i < count; ++i) {
    std::string name = std::string(kind) + (queue ? " queue" : "") + " of line " + std::to_string(place.line);
    if (count > 1) name += ", buffer " + std::to_string(i);
    buffers_.push_back({.begin = first + i * bytes,
                        .bytes = bytes,
                        .name = std::move(name),
                        .state = queue ? State::kFree : State::kPlain,
                        .handed = Clock(kPipes, 0),
                        .place = place,
                        .read = Clock(kPipes, 0),
                        .written = Clock(kPipes, 0),
                        .scalar_read = Clock(kPipes, 0),
                        .scalar_written = Clock(kPipes, 0)});
  }
  Forget(begin, uint64_t{bytes} * count);
}

const Checker::Buffer* Checker::Find(uint32_t offset) const {
  for (const Buffer& buffer : buffers_) {
    if (offset >= buffer.begin && offset < buffer.begin + buffer.bytes) return &buffer;
  }
  return nullptr;
}
Checker::Buffer* Checker::Find(uint32_t offset) {
  return const_cast<Buffer*>(static_cast<const Checker*>(this)->Find(offset));
}

// An empty range has no address that could be wrong.
uint32_t Checker::Offset(const void* begin, uint64_t bytes, Place place) const {
  const int64_t offset = static_cast<const uint8_t*>(begin) - core_->ub;
  const Buffer* buffer =
      begin == nullptr || offset < 0 || offset >= kLocalBytes ? nullptr : Find(static_cast<uint32_t>(offset));
  if (buffer == nullptr) Complain(place, "the tensor is not in any buffer of this core; was it allocated?");
  const uint64_t within = static_cast<uint64_t>(offset) - buffer->begin;
  if (within + bytes > buffer->bytes) {
    Complain(place, "bytes " + std::to_string(within) + " to " + std::to_string(within + bytes) + " of the " +
                        buffer->name + ", which has " + std::to_string(buffer->bytes));
  }
  if (buffer->state == State::kFree || buffer->state == State::kQueued) {
    Complain(place, "the " + buffer->name + " is " + (buffer->state == State::kFree ? "free" : "queued") +
                        ": this pipe does not own its tensor");
  }
  return static_cast<uint32_t>(offset);
}

std::string Checker::Name(uint32_t offset) const {
  const Buffer* buffer = Find(offset);
  return "byte " + std::to_string(offset - buffer->begin) + " of the " + buffer->name;
}

// Whether `pipe` knows that `other` has finished what it began at `time`. With automatic synchronisation the
// compiler makes the scalar unit and the other pipes wait for each other where they touch the same local
// memory (MTE2-S, MTE3-S, V-S, in either direction), and inserts barriers between vector functions. Copies of
// one pipe are taken to be in order. A pipe that waits for the scalar unit learns what that had waited for.
bool Checker::Waited(pipe_t pipe, int other, const Touch& touch, const Buffer& buffer, Place place) {
  if (touch.time <= seen_[pipe][other]) return true;
  if (other == pipe) return pipe != PIPE_V || core_->auto_sync || touch.call == place.call;
  const bool inserted =
      core_->auto_sync && ((pipe == PIPE_S && BesideScalar(other)) || (other == PIPE_S && BesideScalar(pipe)));
  if (!inserted) return false;
  seen_[pipe][other] = touch.time;
  for (const Clock* seen : {&buffer.scalar_read, &buffer.scalar_written})
    if (other == PIPE_S && (*seen)[PIPE_S] >= touch.time) return Join(pipe, *seen), true;
  return true;
}

// To the compiler a queue's tensor is one object: what the scalar unit and another pipe wait for does not depend on the
// bytes. Scratch memory is divided by kernels, and stays a matter of bytes.
void Checker::WaitForTensor(pipe_t pipe, const Buffer& buffer, bool write) {
  if (!core_->auto_sync || buffer.state == State::kPlain) return;
  if (pipe == PIPE_S) {
    for (const int other : {PIPE_V, PIPE_MTE2, PIPE_MTE3}) {
      seen_[PIPE_S][other] = std::max({seen_[PIPE_S][other], buffer.written[other], write ? buffer.read[other] : 0});
    }
  } else if (BesideScalar(pipe)) {
    Join(pipe, buffer.scalar_written);
    if (write) Join(pipe, buffer.scalar_read);
  }
}

void Checker::RecordTouch(pipe_t pipe, Buffer& buffer, bool write) const {
  (write ? buffer.written : buffer.read)[pipe] = now_[pipe];
  if (pipe == PIPE_S) (write ? buffer.scalar_written : buffer.scalar_read) = Snapshot(PIPE_S);
}

Checker::Granule& Checker::GranuleAt(uint32_t index) {
  Granule& granule = granules_[index];
  if (granule.epoch != epoch_) granule = Granule{.epoch = epoch_};
  return granule;
}

void Checker::Ordered(pipe_t pipe, uint32_t offset, uint64_t bytes, bool write, Place place) {
  const uint32_t time = ++now_[pipe];
  Buffer& buffer = *Find(offset);
  WaitForTensor(pipe, buffer, write);
  const auto unordered = [&](uint32_t granule, const char* what, int other, const Touch& touch) {
    const char* advice = other == pipe ? "); call PipeBarrier<PIPE_V>() in between"
                                       : "); set a flag and wait for it, or pass the tensor through a queue";
    Complain(place, std::string(kPipeNames[pipe]) + (write ? " writes " : " reads ") + Name(OffsetOf(granule)) +
                        " while " + kPipeNames[other] + " may still " + what + " it (" + touch.function + ", line " +
                        std::to_string(touch.line) + advice);
  };
  const uint32_t last = GranuleOf(static_cast<uint32_t>(offset + bytes - 1));
  for (uint32_t index = GranuleOf(offset); index <= last; ++index) {
    Granule& granule = GranuleAt(index);
    if (!Waited(pipe, granule.writer, granule.write, buffer, place))
      unordered(index, "write", granule.writer, granule.write);
    const Touch touch{time, place.call, place.function, place.line};
    if (!write) {
      granule.reads[pipe] = touch;
      if (pipe == PIPE_V && granule.vector_read.time <= seen_[PIPE_V][PIPE_V]) granule.vector_read = touch;
      continue;
    }
    for (int other = 0; other < kPipes; ++other) {
      const Touch& read = other == pipe && pipe == PIPE_V ? granule.vector_read : granule.reads[other];
      if (!Waited(pipe, other, read, buffer, place)) unordered(index, "read", other, read);
    }
    granule.write = touch;
    granule.writer = static_cast<uint8_t>(pipe);
  }
  RecordTouch(pipe, buffer, write);
}

void Checker::Read(pipe_t pipe, const void* begin, uint64_t bytes, Place place) {
  if (bytes == 0) return;
  const uint32_t offset = Offset(begin, bytes, place);
  const uint8_t* first = written_.data() + offset;
  if (const void* hole = std::memchr(first, 0, bytes); hole != nullptr) {
    Complain(place, "reads " + Name(static_cast<uint32_t>(static_cast<const uint8_t*>(hole) - written_.data())) +
                        ", which was never written");
  }
  Ordered(pipe, offset, bytes, false, place);
}

void Checker::Write(pipe_t pipe, const void* begin, uint64_t bytes, Place place) {
  if (bytes == 0) return;
  const uint32_t offset = Offset(begin, bytes, place);
  Ordered(pipe, offset, bytes, true, place);
  std::memset(written_.data() + offset, 1, bytes);
}

void Checker::Forget(const void* begin, uint64_t bytes) {
  std::memset(written_.data() + (static_cast<const uint8_t*>(begin) - core_->ub), 0, bytes);
}

void Checker::Aligned(const void* address, uint64_t alignment, Place place) const {
  const uint64_t over = reinterpret_cast<uint64_t>(address) % alignment;
  if (over == 0) return;
  const int64_t offset = static_cast<const uint8_t*>(address) - core_->ub;
  const bool local = offset >= 0 && offset < kLocalBytes && Find(static_cast<uint32_t>(offset)) != nullptr;
  Complain(place, (local ? Name(static_cast<uint32_t>(offset)) : std::string("a global address")) + " is " +
                      std::to_string(over) + " bytes past a multiple of " + std::to_string(alignment) +
                      "; it must start at one");
}

void Checker::Bounds(const void* begin, uint64_t bytes, const void* from, const void* to, Place place) const {
  const auto *first = static_cast<const uint8_t*>(begin), *lower = static_cast<const uint8_t*>(from),
             *upper = static_cast<const uint8_t*>(to);
  if (upper != nullptr && (first < lower || first + bytes > upper)) {
    Complain(place, "bytes " + std::to_string(first - lower) + " to " +
                        std::to_string(first - lower + static_cast<int64_t>(bytes)) + " of global memory that has " +
                        std::to_string(upper - lower));
  }
  if (twinIsAllocated(begin, bytes) == 0) {
    Complain(place, std::to_string(bytes) + " bytes of global memory outside any allocation");
  }
}

void Checker::ReadGlobal(pipe_t pipe, const void* begin, uint64_t bytes, const void* from, const void* to,
                         Place place) {
  if (bytes == 0) return;
  Bounds(begin, bytes, from, to, place);
  Touched(begin, bytes, from, AccessKind::kRead, place);
  const auto *first = static_cast<const uint8_t*>(begin), *last = first + bytes;
  for (const GlobalWrite& write : global_writes_) {
    if (pipe == write.pipe || write.time <= seen_[pipe][write.pipe] || write.end <= first || last <= write.begin)
      continue;
    Complain(place, std::string(kPipeNames[pipe]) + " reads global memory while " + kPipeNames[write.pipe] +
                        " may still write it (" + write.place.function + ", line " + std::to_string(write.place.line) +
                        "); set a flag and wait for it");
  }
}

void Checker::WriteGlobal(pipe_t pipe, const void* begin, uint64_t bytes, const void* from, const void* to,
                          Place place) {
  if (bytes == 0) return;
  Bounds(begin, bytes, from, to, place);
  constexpr AccessKind kKinds[] = {AccessKind::kWrite, AccessKind::kAdd, AccessKind::kMax, AccessKind::kMin};
  const bool copied = pipe == PIPE_MTE3 || pipe == PIPE_FIX;  // atomic if so set
  Touched(begin, bytes, from, copied ? kKinds[static_cast<int>(core_->atomic)] : AccessKind::kWrite, place);
  if (!copied) return;
  const auto* first = static_cast<const uint8_t*>(begin);
  if (!global_writes_.empty()) {  // another piece of one copy; the fixpipe's are rows
    GlobalWrite& before = global_writes_.back();
    const bool same = before.pipe == pipe && before.place.call == place.call && before.place.line == place.line;
    if (same && (pipe == PIPE_FIX ? before.end <= first : before.end == first)) {
      before.end = first + bytes, before.time = now_[pipe];
      return;
    }
  }
  if (global_writes_.size() == kGlobalWritesKept) global_writes_.erase(global_writes_.begin());
  global_writes_.push_back({first, first + bytes, pipe, now_[pipe], place});
}

}  // namespace twin::ascendc
