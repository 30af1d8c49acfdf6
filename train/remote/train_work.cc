// The bytes are a small JSON object followed by the rows' numbers as they are in memory: all ranks are of one job.
#include "train/remote/train_work.h"

#include <cstring>
#include <iterator>

#include "core/base/error.h"
#include "core/base/json.h"

namespace trireme {
namespace {

class Writer {
 public:
  template <typename Number>
  void Put(const std::vector<Number>& numbers) {
    PutSize(numbers.size());
    Append(numbers.data(), numbers.size() * sizeof(Number));
  }
  void Put(const std::string& text) {
    PutSize(text.size());
    Append(text.data(), text.size());
  }
  void PutSize(uint64_t size) { Append(&size, sizeof(size)); }
  std::string Take() { return std::move(bytes_); }

 private:
  void Append(const void* data, size_t size) { bytes_.append(static_cast<const char*>(data), size); }
  std::string bytes_;
};

class Reader {
 public:
  explicit Reader(const std::string& bytes) : bytes_(bytes) {}
  template <typename Number>
  void Take(std::vector<Number>& numbers) {
    numbers.resize(Size());
    Copy(numbers.data(), numbers.size() * sizeof(Number));
  }
  std::string Text() {
    std::string text(Size(), '\0');
    Copy(text.data(), text.size());
    return text;
  }
  uint64_t Size() {
    uint64_t size = 0;
    Copy(&size, sizeof(size));
    return size;
  }

 private:
  void Copy(void* to, size_t size) {
    TRIREME_CHECK(size <= bytes_.size() - at_) << "work of " << bytes_.size() << " bytes ends early";
    if (size > 0) std::memcpy(to, bytes_.data() + at_, size);
    at_ += size;
  }
  const std::string& bytes_;
  size_t at_ = 0;
};

}  // namespace

std::string TrainWork::Bytes() const {
  Writer writer;
  writer.Put(JsonLine({{"action", static_cast<int>(action)},
                       {"model", model},
                       {"rank", adapters.rank},
                       {"seed", adapters.seed},
                       {"attention", adapters.attention},
                       {"mlp", adapters.mlp},
                       {"loss", loss},
                       {"low", numbers.clip_low},
                       {"high", numbers.clip_high},
                       {"beta", numbers.beta},
                       {"backward", backward},
                       {"base", base},
                       {"lr", adam.learning_rate},
                       {"beta1", adam.beta1},
                       {"beta2", adam.beta2},
                       {"eps", adam.eps},
                       {"decay", adam.weight_decay},
                       {"clip", adam.grad_clip_norm},
                       {"directory", directory},
                       {"optimizer", optimizer},
                       {"sampler", sampler}}));
  writer.PutSize(rows.size());
  for (const TrainRow& row : rows) {
    writer.Put(row.tokens);
    writer.Put(row.targets);
    writer.Put(row.inputs.weights);
    writer.Put(row.inputs.logprobs);
    writer.Put(row.inputs.advantages);
    writer.Put(row.inputs.sequence_ratio_mask);
  }
  return writer.Take();
}

TrainWork TrainWork::Of(const std::string& bytes) {
  Reader reader(bytes);
  const Json head = Json::parse(reader.Text());
  TrainWork work{
      .action = static_cast<TrainAction>(head["action"].get<int>()),
      .model = head["model"],
      .adapters = {.rank = head["rank"], .seed = head["seed"], .attention = head["attention"], .mlp = head["mlp"]},
      .loss = head["loss"],
      .numbers = {.clip_low = head["low"], .clip_high = head["high"], .beta = head["beta"]},
      .backward = head["backward"],
      .base = head["base"],
      .adam = {.learning_rate = head["lr"],
               .beta1 = head["beta1"],
               .beta2 = head["beta2"],
               .eps = head["eps"],
               .weight_decay = head["decay"],
               .grad_clip_norm = head["clip"]},
      .directory = head["directory"],
      .optimizer = head["optimizer"],
      .sampler = head["sampler"]};
  work.rows.resize(reader.Size());
  for (TrainRow& row : work.rows) {
    reader.Take(row.tokens);
    reader.Take(row.targets);
    reader.Take(row.inputs.weights);
    reader.Take(row.inputs.logprobs);
    reader.Take(row.inputs.advantages);
    reader.Take(row.inputs.sequence_ratio_mask);
  }
  return work;
}

int64_t TrainWork::tokens() const {
  int64_t all = 0;
  for (const TrainRow& row : rows) all += std::ssize(row.tokens);
  return all;
}

bool MayJoin(const TrainWork& one, const TrainWork& other) {
  const auto passes = [](const TrainWork& work) {  // a loss other than this one needs a pass to know its weights
    return work.backward && work.loss != "cross_entropy";
  };
  return one.action == TrainAction::kPass && other.action == TrainAction::kPass && one.model != other.model &&
         one.backward == other.backward && one.base == other.base && passes(one) == passes(other);
}

std::string BytesOf(const std::vector<const TrainWork*>& works) {
  Writer writer;
  writer.PutSize(works.size());
  for (const TrainWork* work : works) writer.Put(work->Bytes());
  return writer.Take();
}

std::vector<TrainWork> WorksOf(const std::string& bytes) {
  Reader reader(bytes);
  std::vector<TrainWork> works;
  for (uint64_t left = reader.Size(); left > 0; --left) works.push_back(TrainWork::Of(reader.Text()));
  return works;
}

}  // namespace trireme
