// Cores (how layers are split, micro batch, recomputation) by a bound on their passes; within a core pipelines and what
// data-parallel ranks shard, by a bound on the step. Both stop at the slowest of the best layouts found. Threads share
// that list; each has a model of its own. Of layouts that are equally fast an order of their sizes decides, so that the
// result does not depend on which thread was first.
#include "cost/search.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <thread>

#include "core/base/error.h"
#include "core/base/text.h"
#include "parallel/graph/parameters.h"
#include "parallel/schedule/schedules.h"

namespace trireme {
namespace {

constexpr double kUsable = 0.95;       // of a device's memory: the rest is the driver's and the allocator's
constexpr int64_t kLeastTokens = 512;  // that context parallelism leaves a rank
constexpr unsigned kMostThreads = 8;

std::vector<int> DivisorsOf(int64_t number, int64_t most) {
  std::vector<int> divisors;
  for (int64_t d = 1; d * d <= number; ++d) {
    if (number % d != 0) continue;
    if (d <= most) divisors.push_back(static_cast<int>(d));
    if (d * d != number && number / d <= most) divisors.push_back(static_cast<int>(number / d));
  }
  std::sort(divisors.begin(), divisors.end());
  return divisors;
}

// Keys that the user holds on to.
class Fixed {
 public:
  explicit Fixed(const std::vector<std::string>& items) {
    static const std::set<std::string> kKnown = {
        "parallel.tensor",         "parallel.pipeline",       "parallel.context",  "parallel.expert",
        "parallel.expert_tensor",  "parallel.zero",           "parallel.replicas", "parallel.schedule",
        "parallel.ulysses",        "parallel.virtual_stages", "memory.recompute",  "run.micro_batch",
        "memory.offload_optimizer"};
    for (const std::string& item : items) {
      const size_t equals = item.find('=');
      const std::string key = item.substr(0, equals);
      if (equals == std::string::npos || !kKnown.contains(key)) {
        throw InputError("--fix ", item, ": wanted KEY=VALUE with a key that the search varies: ", Join(kKnown));
      }
      values_[key] = item.substr(equals + 1);
    }
  }
  bool Allows(const std::string& key, const std::string& value) const {
    const auto found = values_.find(key);
    return found == values_.end() || found->second == value;
  }
  bool Allows(const std::string& key, int value) const { return Allows(key, std::to_string(value)); }
  std::vector<int> Of(const std::string& key, const std::vector<int>& choices) const {
    std::vector<int> left;
    std::copy_if(choices.begin(), choices.end(), std::back_inserter(left), [&](int c) { return Allows(key, c); });
    return left;
  }

 private:
  std::map<std::string, std::string> values_;
};

using BoundedLayout = std::pair<double, Layout>;

bool IsLower(const BoundedLayout& a, const BoundedLayout& b) { return a.first < b.first; }

bool IsBetter(const FoundLayout& a, const FoundLayout& b) {
  const auto key = [](const FoundLayout& f) {
    const Layout& l = f.layout;
    return std::tuple(f.step.step_seconds, l.zero, l.offload_optimizer, static_cast<int>(l.recompute), l.replicas,
                      l.tensor, l.pipeline, l.context, l.ulysses, l.expert, l.expert_tensor, l.virtual_stages,
                      l.micro_batch, l.schedule);
  };
  return key(a) < key(b);
}

// The best layouts of all threads.
class BestLayouts {
 public:
  explicit BestLayouts(int most) : most_(static_cast<size_t>(most)) {}

  void Add(const FoundLayout& found) {
    const std::lock_guard lock(mutex_);
    found_.insert(std::upper_bound(found_.begin(), found_.end(), found, IsBetter), found);
    if (found_.size() > most_) found_.pop_back();
    if (found_.size() == most_) slowest_ = found_.back().step.step_seconds;
  }
  double slowest() const { return slowest_; }
  std::vector<FoundLayout> Take() { return std::move(found_); }

 private:
  const size_t most_;
  std::mutex mutex_;
  std::vector<FoundLayout> found_;
  std::atomic<double> slowest_ = std::numeric_limits<double>::infinity();
};

// A thread's part.
class Search {
 public:
  Search(const Config& config, const LayerGraph& graph, const DeviceRates& device, const Assumptions& assumptions,
         int world, const SearchOptions& options, BestLayouts& best)
      : config_(config),
        graph_(graph),
        device_(device),
        world_(world),
        options_(options),
        fixed_(options.fix),
        best_(best),
        model_(config, graph, device, assumptions) {}

  double BoundOf(const Layout& core) { return model_.PassesBound(core); }
  // Layouts of this core; false: neither it nor one with a higher bound can be among the best.
  bool Take(const BoundedLayout& core) {
    if (IsSlow(core.first)) return false;
    Extend(core.second);
    return true;
  }

  // Adds what another thread's part has counted.
  void Add(const Search& other) {
    considered_ += other.considered_;
    timed_ += other.timed_;
    least_memory_ = std::min(least_memory_, other.least_memory_);
    least_planned_ = std::min(least_planned_, other.least_planned_);
  }
  int64_t considered() const { return considered_; }
  int64_t timed() const { return timed_; }

  [[noreturn]] void RefuseWorld(bool no_core) const {
    const double room = Room() / (1 << 30);
    const double least = std::min(least_planned_, least_memory_ > Room() ? least_memory_ : least_planned_) / (1 << 30);
    if (no_core || considered_ == 0) {
      throw InputError("no layout of ", world_, " ranks divides ", graph_.family,
                       " and run.global_batch = ", config_.run().global_batch(),
                       " under what is fixed; raise run.global_batch, or fix less");
    }
    throw InputError("no layout of ", world_, " x ", device_.name, " fits: the smallest needs ", least,
                     " GiB per rank, ", least - room, " more than the ", room,
                     " that may be used; add ranks, or lower data.max_length");
  }

  // Everything that a layer's own cost depends on; bounds are left to BoundOf.
  std::vector<BoundedLayout> Cores() {
    std::vector<BoundedLayout> cores;
    for (const int tensor : fixed_.Of("parallel.tensor", DivisorsOf(world_, world_))) {
      for (const int expert : fixed_.Of("parallel.expert", ExpertSizes())) {
        for (const int expert_tensor : fixed_.Of("parallel.expert_tensor", ExpertTensorSizes())) {
          Layout layout{.world = world_, .tensor = tensor, .expert = expert, .expert_tensor = expert_tensor};
          layout.sequence = config_.parallel().sequence();
          if (world_ % (expert * expert_tensor) == 0 && model_.Splits(layout)) AddContexts(layout, cores);
        }
      }
    }
    return cores;
  }

 private:
  void AddContexts(Layout layout, std::vector<BoundedLayout>& cores) {
    const int64_t length = config_.data().max_length();
    const int most = static_cast<int>(std::max<int64_t>(length / kLeastTokens, 1));
    for (const int context : fixed_.Of("parallel.context", DivisorsOf(world_ / layout.tensor, most))) {
      for (const int ulysses : fixed_.Of("parallel.ulysses", UlyssesSizes(layout.tensor, context))) {
        for (const int micro_batch : fixed_.Of("run.micro_batch", MicroBatchSizes(layout.tensor * context))) {
          for (const Recompute recompute : {RECOMPUTE_NONE, RECOMPUTE_SELECTIVE, RECOMPUTE_FULL}) {
            if (!fixed_.Allows("memory.recompute", RecomputeName(recompute))) continue;
            layout.context = context;
            layout.ulysses = ulysses;
            layout.micro_batch = micro_batch;
            layout.recompute = recompute;
            cores.emplace_back(0, layout);
          }
        }
      }
    }
  }

  // All pipelines and shardings of a core that may be among the best.
  void Extend(Layout layout) {
    std::vector<BoundedLayout> candidates;
    const int wide = layout.tensor * layout.context;
    for (const int pipeline : fixed_.Of("parallel.pipeline", DivisorsOf(world_ / wide, DecodersIn(graph_)))) {
      layout.pipeline = pipeline;
      const int ranks = world_ / pipeline;
      if (layout.data() * layout.micro_batch > config_.run().global_batch()) continue;
      if (ranks % (layout.expert * layout.expert_tensor) != 0) continue;
      for (const auto& [schedule, chunks] : Schedules(pipeline)) {
        layout.schedule = schedule;
        layout.virtual_stages = chunks;
        if (IsSlow(model_.PipelineBound(layout))) continue;
        AddShardings(layout, candidates);
      }
    }
    std::sort(candidates.begin(), candidates.end(), IsLower);
    for (const auto& [bound, candidate] : candidates) {
      if (IsSlow(bound)) return;
      Consider(candidate);
    }
  }

  void AddShardings(Layout layout, std::vector<BoundedLayout>& candidates) {
    for (const int zero : fixed_.Of("parallel.zero", {0, 1, 2, 3})) {
      for (const int replicas : fixed_.Of("parallel.replicas", ReplicaCounts(layout, zero))) {
        for (const bool offload : {false, true}) {
          if (!fixed_.Allows("memory.offload_optimizer", offload ? "true" : "false")) continue;
          layout.zero = zero;
          layout.replicas = replicas;
          layout.offload_optimizer = offload;
          ++considered_;
          const double memory = device_.memory_residual * model_.MemoryBound(layout);
          least_memory_ = std::min(least_memory_, memory);
          if (memory > Room()) continue;
          const double bound = model_.LowerBound(layout);
          if (!IsSlow(bound)) candidates.emplace_back(bound, layout);
        }
      }
    }
  }

  void Consider(const Layout& layout) {
    if (!model_.HasSchedule(layout)) return;
    StepEstimate step;
    double bytes = 0;
    const auto is_fast = [&] {
      ++timed_;
      step = model_.Time(layout);
      if (step.step_seconds <= best_.slowest()) return true;
      ++too_slow_;
      return false;
    };
    const auto fits = [&] {
      bytes = device_.memory_residual * static_cast<double>(model_.Memory(layout).device());
      if (bytes <= Room()) return true;
      least_planned_ = std::min(least_planned_, bytes);
      ++too_large_;
      return false;
    };
    // What refuses more goes first: which of the two is in vain depends on model and device.
    const bool passes = too_slow_ > too_large_ ? is_fast() && fits() : fits() && is_fast();
    if (!passes) return;
    step.memory_gib = bytes / (1 << 30);
    best_.Add({layout, step});
  }

  bool IsSlow(double bound) const { return options_.prune && bound > best_.slowest(); }
  double Room() const { return kUsable * device_.memory_gib * (1 << 30); }

  std::vector<int> ExpertSizes() const {
    for (const Layer& layer : graph_.layers) {
      const DecoderSpec* decoder = DecoderOf(layer.spec);
      if (decoder != nullptr && decoder->experts) return DivisorsOf(decoder->experts->router.experts, world_);
    }
    return {1};
  }
  std::vector<int> ExpertTensorSizes() const {
    return HasExperts(graph_) ? DivisorsOf(8, world_) : std::vector<int>{1};
  }

  std::vector<int> UlyssesSizes(int tensor, int context) const {
    int64_t heads = 0;
    for (const Layer& layer : graph_.layers) {
      const DecoderSpec* decoder = DecoderOf(layer.spec);
      if (decoder != nullptr && !decoder->attention.delta) heads = decoder->attention.heads;
    }
    std::vector<int> sizes;
    for (const int size : DivisorsOf(context, context)) {
      if (size == 1 || heads / tensor % size == 0) sizes.push_back(size);
    }
    return sizes;
  }

  // Powers of two, as far as any data parallelism leaves rows for them.
  std::vector<int> MicroBatchSizes(int wide) const {
    const int64_t rows = config_.run().global_batch();
    std::vector<int> sizes;
    for (int size = 1; size <= std::min<int64_t>(rows, 64); size *= 2) {
      const int64_t least_data =
          std::max<int64_t>(world_ / (int64_t{wide} * std::max<int64_t>(DecodersIn(graph_), 1)), 1);
      if (rows % size == 0 && size * least_data <= rows) sizes.push_back(size);
    }
    return sizes;
  }

  std::vector<int> ReplicaCounts(const Layout& layout, int zero) const {
    if (zero == 0 || layout.data() == 1) return {1};
    const int expert_data = world_ / (layout.expert * layout.expert_tensor * layout.pipeline);
    std::vector<int> counts;
    for (const int count : DivisorsOf(layout.data(), layout.data())) {
      const bool splits = count == 1 || (zero == 3 && expert_data % count == 0 && layout.data() / count > 1);
      if (splits) counts.push_back(count);
    }
    return counts;
  }

  std::vector<std::pair<std::string, int>> Schedules(int pipeline) {
    const auto found = schedules_.find(pipeline);
    if (found != schedules_.end()) return found->second;
    std::vector<std::pair<std::string, int>> list;
    const int64_t decoders = DecodersIn(graph_);
    for (const std::string& name : ScheduleNames()) {
      if (!fixed_.Allows("parallel.schedule", name) || (pipeline == 1 && name != "1f1b")) continue;
      const int most = name == "interleaved" ? static_cast<int>(decoders / pipeline) : 2;
      for (int chunks = name == "1f1b" || name == "zero_bubble" ? 1 : 2; chunks <= most; ++chunks) {
        const bool one = name == "1f1b" || name == "zero_bubble";
        if (one && chunks > 1) break;
        if (int64_t{pipeline} * chunks > decoders || !fixed_.Allows("parallel.virtual_stages", chunks)) continue;
        if (name == "interleaved" && decoders % (pipeline * chunks) != 0 && chunks > 8) continue;
        list.emplace_back(name, chunks);
      }
    }
    return schedules_[pipeline] = list;
  }

  const Config& config_;
  const LayerGraph& graph_;
  const DeviceRates& device_;
  const int world_;
  const SearchOptions& options_;
  const Fixed fixed_;
  BestLayouts& best_;
  StepModel model_;
  int64_t considered_ = 0, timed_ = 0;
  std::map<int, std::vector<std::pair<std::string, int>>> schedules_;
  int64_t too_slow_ = 0, too_large_ = 0;  // layouts that were refused
  double least_memory_ = std::numeric_limits<double>::infinity();
  double least_planned_ = std::numeric_limits<double>::infinity();
};

// work(part, i) for every i below `count`, `block` neighbours in one thread, in ascending order, until one is false:
// then no later block is begun.
template <typename Work>
void InThreads(const std::vector<std::unique_ptr<Search>>& parts, size_t count, size_t block, const Work& work) {
  std::atomic<size_t> next = 0;
  std::mutex mutex;
  std::exception_ptr failure;
  const auto run = [&](Search& part) {
    try {
      for (size_t begin = next.fetch_add(block); begin < count; begin = next.fetch_add(block)) {
        for (size_t i = begin; i < std::min(begin + block, count); ++i) {
          if (!work(part, i)) next = count;
        }
      }
    } catch (...) {
      const std::lock_guard lock(mutex);
      failure = std::current_exception();
      next = count;
    }
  };
  std::vector<std::thread> threads;
  for (size_t i = 1; i < parts.size(); ++i) threads.emplace_back(run, std::ref(*parts[i]));
  run(*parts.front());
  for (std::thread& thread : threads) thread.join();
  if (failure) std::rethrow_exception(failure);
}

}  // namespace

SearchResult SearchLayouts(const Config& config, const LayerGraph& graph, const DeviceRates& device,
                           const Assumptions& assumptions, int world, const SearchOptions& options) {
  BestLayouts best(options.best);
  std::vector<std::unique_ptr<Search>> parts;
  for (unsigned i = 0; i < std::clamp(std::thread::hardware_concurrency(), 1U, kMostThreads); ++i) {
    parts.push_back(std::make_unique<Search>(config, graph, device, assumptions, world, options, best));
  }
  std::vector<BoundedLayout> cores = parts.front()->Cores();
  constexpr size_t kAlike = 64;  // neighbours split layers alike
  InThreads(parts, cores.size(), kAlike, [&](Search& part, size_t i) {
    cores[i].first = part.BoundOf(cores[i].second);
    return true;
  });
  std::sort(cores.begin(), cores.end(), IsLower);
  InThreads(parts, cores.size(), 1, [&](Search& part, size_t i) { return part.Take(cores[i]); });
  Search& all = *parts.front();
  for (size_t i = 1; i < parts.size(); ++i) all.Add(*parts[i]);
  SearchResult result{.found = best.Take(), .considered = all.considered(), .timed = all.timed()};
  if (result.found.empty()) all.RefuseWorld(cores.empty());
  return result;
}

}  // namespace trireme
