// TPipe allocates the core's buffers; TQue passes tensors from one pipe to the next; TBuf is scratch memory. A
// queue of a vector core reuses the buffer that was freed last: on a host, the one most likely to be in cache. A cube
// core's takes turns, as a device's does: what waits for what, and what does not, is as there.
#pragma once

#include <algorithm>

#include "ascendc/tensor.h"

namespace AscendC {
inline namespace TWIN_ASCENDC_BUILD {

struct TQueConfig {
  bool nd2nz = false, nz2nd = false, scmBlockGroup = false;
  uint32_t bufferLen = 0, bufferNumber = 0, consumerSize = 0;
};

namespace queue {

inline const char* NameOf(TPosition position) {
  switch (position) {
    case TPosition::VECIN:
      return "VECIN";
    case TPosition::VECOUT:
      return "VECOUT";
    case TPosition::VECCALC:
      return "VECCALC";
    case TPosition::A1:
      return "A1";
    case TPosition::B1:
      return "B1";
    case TPosition::C1:
      return "C1";
    case TPosition::TSCM:
      return "TSCM";
    case TPosition::A2:
      return "A2";
    case TPosition::B2:
      return "B2";
    case TPosition::C2:
      return "C2";
    case TPosition::CO1:
      return "CO1";
    default:
      return "local";
  }
}
constexpr bool IsIn(TPosition position, twin::ascendc::Memory memory) { return MemoryOf(position) == memory; }
constexpr pipe_t Producer(TPosition source) {
  using enum twin::ascendc::Memory;
  if (IsIn(source, kL0a) || IsIn(source, kL0b) || IsIn(source, kBiasTable)) return PIPE_MTE1;
  if (IsIn(source, kL0c)) return PIPE_M;
  return source == TPosition::VECIN || source == TPosition::GM || IsIn(source, kL1) ? PIPE_MTE2 : PIPE_V;
}
constexpr pipe_t Consumer(TPosition target) {
  using enum twin::ascendc::Memory;
  if (IsIn(target, kL1)) return PIPE_MTE1;
  if (IsIn(target, kL0a) || IsIn(target, kL0b) || IsIn(target, kBiasTable)) return PIPE_M;
  if (IsIn(target, kL0c)) return PIPE_FIX;
  return target == TPosition::VECOUT || target == TPosition::GM ? PIPE_MTE3 : PIPE_V;
}

}  // namespace queue

template <TPosition source, TPosition target, int32_t depth, auto mask = 0>
class TQueBind {
 public:
  template <typename T>
  LocalTensor<T> AllocTensor(Where where = Where::Here()) {
    if (free_count_ == 0) {
      policy::Fail("AllocTensor",
                   std::string("none of this ") + queue::NameOf(source) + " queue's " + std::to_string(count_) +
                       " buffers is free; free one first",
                   where);
    }
    const uint8_t taken = kTakesTurns ? free_[0] : free_[free_count_ - 1];
    if (kTakesTurns) std::copy(free_ + 1, free_ + free_count_, free_);
    --free_count_;
    uint8_t* buffer = begin_ + bytes_ * taken;
    TWIN_TELL(Alloc(buffer, bytes_, kProducer, policy::At("AllocTensor", where)));
    return {buffer, bytes_, source};
  }
  template <typename T>
  void AllocTensor(LocalTensor<T>& tensor, Where where = Where::Here()) {
    tensor = AllocTensor<T>(where);
  }
  template <typename T>
  bool EnQue(const LocalTensor<T>& tensor, Where where = Where::Here()) {
    return Give(tensor.bytes_begin(), kProducer, where);
  }
  template <typename T>
  LocalTensor<T> DeQue(Where where = Where::Here()) {
    return {Take(kConsumer, where), bytes_, target};
  }
  // The same for one step of a tensor that goes in, is computed on and goes out: GM to VECIN, then VECOUT to
  // GM.
  template <TPosition from, TPosition to, typename T>
  bool EnQue(const LocalTensor<T>& tensor, Where where = Where::Here()) {
    return Give(tensor.bytes_begin(), queue::Producer(from), where);
  }
  template <TPosition from, TPosition to, typename T>
  LocalTensor<T> DeQue(Where where = Where::Here()) {
    return {Take(queue::Consumer(to), where), bytes_, to == TPosition::GM ? from : to};
  }
  template <typename T>
  void DeQue(LocalTensor<T>& tensor, Where where = Where::Here()) {
    tensor = DeQue<T>(where);
  }
  template <typename T>
  void FreeTensor(LocalTensor<T>& tensor, Where where = Where::Here()) {
    const uint8_t index = IndexOf(tensor.bytes_begin(), "FreeTensor", where);
    TWIN_TELL(Free(tensor.bytes_begin(), kConsumer, policy::At("FreeTensor", where)));
    if (free_count_ == count_) policy::Fail("FreeTensor", "all buffers of the queue are already free", where);
    free_[free_count_++] = index;
  }

  bool VacantInQue() const { return queued_count_ < count_; }
  bool HasTensorInQue() const { return queued_count_ > 0; }
  int32_t GetTensorCountInQue() const { return queued_count_; }
  bool HasIdleBuffer() const { return free_count_ > 0; }

  // Called by TPipe.
  void Adopt(uint8_t* begin, uint8_t count, uint32_t bytes, Where where) {
    if (count > kMostBuffers) policy::Fail("InitBuffer", "a queue has at most 16 buffers", where);
    begin_ = begin, bytes_ = bytes, count_ = free_count_ = count, queued_count_ = first_ = 0;
    for (uint8_t i = 0; i < count; ++i) free_[i] = static_cast<uint8_t>(count - 1 - i);
    TWIN_TELL(AddBuffers(begin, bytes, count, queue::NameOf(source), policy::At("InitBuffer", where)));
  }

 private:
  static constexpr uint8_t kMostBuffers = 16;
  static constexpr bool kTakesTurns = MemoryOf(source) != twin::ascendc::Memory::kUb;
  // Bound from scratch memory to itself, a tensor passes the vector unit by: copied in, then copied out.
  static constexpr bool kPassesThrough = source == TPosition::LCM && target == TPosition::LCM;
  static constexpr pipe_t kProducer = kPassesThrough ? PIPE_MTE2 : queue::Producer(source),
                          kConsumer = kPassesThrough ? PIPE_MTE3 : queue::Consumer(target);

  bool Give(uint8_t* buffer, [[maybe_unused]] pipe_t producer, Where where) {
    const uint8_t index = IndexOf(buffer, "EnQue", where);
    if (queued_count_ == kMostBuffers) policy::Fail("EnQue", "the queue is full", where);
    TWIN_TELL(EnQue(buffer, producer, policy::At("EnQue", where)));
    queued_[(first_ + queued_count_++) % kMostBuffers] = index;
    return true;
  }
  uint8_t* Take([[maybe_unused]] pipe_t consumer, Where where) {
    if (queued_count_ == 0) {
      policy::Fail("DeQue",
                   std::string("there is nothing in this ") + queue::NameOf(source) +
                       " queue: call EnQue first; the device would wait forever",
                   where);
    }
    uint8_t* buffer = begin_ + bytes_ * queued_[first_];
    first_ = (first_ + 1) % kMostBuffers;
    --queued_count_;
    TWIN_TELL(DeQue(buffer, consumer, policy::At("DeQue", where)));
    return buffer;
  }
  uint8_t IndexOf(const uint8_t* buffer, const char* function, Where where) const {
    const bool ours = buffer >= begin_ && buffer < begin_ + bytes_ * count_ && bytes_ > 0;
    if (!ours || (buffer - begin_) % bytes_ != 0) {
      policy::Fail(function, std::string("the tensor does not belong to this ") + queue::NameOf(source) + " queue",
                   where);
    }
    return static_cast<uint8_t>((buffer - begin_) / bytes_);
  }

  uint8_t* begin_ = nullptr;
  uint32_t bytes_ = 0;
  uint8_t count_ = 0, free_count_ = 0, queued_count_ = 0, first_ = 0;
  uint8_t free_[kMostBuffers], queued_[kMostBuffers];
};

// In and out of the vector unit: from the side opposite the position.
template <TPosition position, int32_t depth, auto mask = 0>
class TQue : public TQueBind<position, position, depth, mask> {};

template <TPosition position = TPosition::LCM>
class TBuf {
 public:
  template <typename T>
  LocalTensor<T> Get() const {
    return {begin_, bytes_, position};
  }
  template <typename T>
  LocalTensor<T> Get(uint32_t size, Where where = Where::Here()) const {
    return GetWithOffset<T>(size, 0, where);
  }
  template <typename T>
  LocalTensor<T> GetWithOffset(uint32_t size, uint32_t offset, Where where = Where::Here()) const {
    policy::Wants(offset + BytesOf<T>(size) <= bytes_, "requests more than the buffer has", "TBuf::Get", where);
    return {begin_ + offset, static_cast<uint32_t>(BytesOf<T>(size)), position};
  }
  // Scratch memory is never handed over: allocating it is to get all of it, and there is nothing to free.
  template <typename T>
  LocalTensor<T> AllocTensor() const {
    return Get<T>();
  }
  template <typename T>
  void FreeTensor(LocalTensor<T>&) const {}
  void Adopt(uint8_t* begin, uint32_t bytes, Where where) {
    begin_ = begin, bytes_ = bytes;
    TWIN_TELL(AddBuffers(begin, bytes, 1, "TBuf", policy::At("InitBuffer", where)));
  }

 private:
  uint8_t* begin_ = nullptr;
  uint32_t bytes_ = 0;
};

class TPipe {
 public:
  TPipe() { Init(); }
  TPipe(const TPipe&) = delete;
  TPipe& operator=(const TPipe&) = delete;
  ~TPipe() { Destroy(); }

  void Init() { Reset(), twin::ascendc::ThisCore().pipe = this; }
  void Reset() {
    twin::ascendc::Core& core = twin::ascendc::ThisCore();
    for (uint32_t& used : core.used) used = 0;
    if (core.checker != nullptr) core.checker->Reset();
  }
  void Destroy() {
    if (twin::ascendc::Core& core = twin::ascendc::ThisCore(); core.pipe == this) core.pipe = nullptr;
  }

  template <TPosition source, TPosition target, int32_t depth, auto mask>
  bool InitBuffer(TQueBind<source, target, depth, mask>& queue, uint8_t count, uint32_t bytes,
                  Where where = Where::Here()) {
    const uint32_t rounded = (bytes + 31) / 32 * 32;
    queue.Adopt(Take(source, uint64_t{rounded} * count, where), count, rounded, where);
    return true;
  }
  template <TPosition position>
  bool InitBuffer(TBuf<position>& buffer, uint32_t bytes, Where where = Where::Here()) {
    const uint32_t rounded = (bytes + 31) / 32 * 32;
    buffer.Adopt(Take(position, rounded, where), rounded, where);
    return true;
  }

  template <HardEvent event>
  TEventID AllocEventID(Where where = Where::Here()) {
    twin::ascendc::Core& core = twin::ascendc::ThisCore();
    for (int id = 0; id < twin::ascendc::kEventIds; ++id) {
      if ((core.events_taken >> id & 1u) != 0) continue;
      core.events_taken |= 1u << id;
      return static_cast<TEventID>(id);
    }
    policy::Fail("AllocEventID", "all 8 event ids are in use; release one first", where);
  }
  template <HardEvent event>
  void ReleaseEventID(TEventID id) {
    twin::ascendc::ThisCore().events_taken &= ~(1u << id);
  }
  // An id for immediate use; it is not reserved.
  TEventID FetchEventID(HardEvent, Where where = Where::Here()) { return Fetch(where); }
  template <HardEvent event>
  TEventID FetchEventID(Where where = Where::Here()) {
    return Fetch(where);
  }

 private:
  TEventID Fetch(Where where) {
    const TEventID id = AllocEventID<HardEvent::MTE2_V>(where);
    ReleaseEventID<HardEvent::MTE2_V>(id);
    return id;
  }
  static uint8_t* Take(TPosition position, uint64_t bytes, Where where) {
    using twin::ascendc::Memory;
    twin::ascendc::Core& core = twin::ascendc::ThisCore();
    const Memory memory = MemoryOf(position);
    const auto index = static_cast<size_t>(memory);
    if (core.cube == (memory == Memory::kUb)) {
      policy::Fail("InitBuffer",
                   std::string("a ") + (core.cube ? "cube" : "vector") + " core has no " + queue::NameOf(position) +
                       " buffers; declare the kernel's cores: KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AI" +
                       (core.cube ? "V" : "C") + "_ONLY)",
                   where);
    }
    const uint32_t most = memory == Memory::kUb ? twin::ascendc::kUbUsableBytes : twin::ascendc::kMemoryBytes[index];
    if (core.used[index] + bytes > most) {
      policy::Fail("InitBuffer",
                   std::to_string(bytes) + " bytes requested, but " + std::to_string(core.used[index]) + " of " +
                       std::to_string(most) +
                       (memory == Memory::kUb ? "" : std::string(" of ") + twin::ascendc::kMemoryNames[index]) +
                       " are in use; use smaller tiles",
                   where);
    }
    uint8_t* begin = core.ub + twin::ascendc::BeginOf(memory) + core.used[index];
    core.used[index] += static_cast<uint32_t>(bytes);
    return begin;
  }
};

inline TPipe* GetTPipePtr() { return static_cast<TPipe*>(twin::ascendc::ThisCore().pipe); }

}  // namespace TWIN_ASCENDC_BUILD
}  // namespace AscendC

using AscendC::GetTPipePtr;
