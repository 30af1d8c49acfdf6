#include "text/tokenizer_training.h"

#include <fstream>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/json.h"
#include "text/library.h"

namespace trireme {
namespace {

constexpr int64_t kBytes = 256;
const Json kSpecial = {"<|endoftext|>", "<|im_start|>", "<|im_end|>"};
constexpr char kChatTemplate[] =
    "{%- for message in messages %}\n"
    "    {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}\n"
    "{%- endfor %}\n"
    "{%- if add_generation_prompt %}\n"
    "    {{- '<|im_start|>assistant\\n' }}\n"
    "{%- endif %}\n";

void Write(const std::filesystem::path& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  if (!(file << text << std::flush)) throw RuntimeError(path.string(), " cannot be written; is the disk full?");
}

void RefuseToOverwrite(const std::filesystem::path& directory) {
  for (const char* name : {"tokenizer.json", "tokenizer_config.json", "chat_template.jinja"}) {
    const std::filesystem::path path = directory / name;
    if (PathExists(path)) {
      throw InputError(path.string(), " already exists; remove it or choose another directory");
    }
  }
}

}  // namespace

void TrainTokenizer(const std::vector<std::string>& texts, int64_t vocabulary, const std::filesystem::path& directory) {
  const int64_t least = kBytes + static_cast<int64_t>(kSpecial.size());
  if (vocabulary < least) {
    throw InputError("a vocabulary of ", vocabulary, " has no room for ", kBytes, " bytes and ", kSpecial.size(),
                     " special tokens; wanted at least ", least);
  }
  RefuseToOverwrite(directory);
  std::string all;
  for (const std::string& path : texts) {
    all += ReadTextFile(path);
    if (!all.empty() && all.back() != '\n') all += '\n';
  }
  const std::string special = kSpecial.dump();
  TriremeText raw{};
  ThrowLibraryError(trireme_tokenizer_train(all.data(), all.size(), static_cast<size_t>(vocabulary), special.data(),
                                            special.size(), &raw),
                    "no tokenizer could be trained: the text ");
  std::filesystem::create_directories(directory);
  Write(directory / "tokenizer.json", TakeText(raw));
  const Json config = {{"bos_token", nullptr},
                       {"eos_token", "<|im_end|>"},
                       {"pad_token", "<|endoftext|>"},
                       {"tokenizer_class", "PreTrainedTokenizerFast"}};
  Write(directory / "tokenizer_config.json", config.dump(1) + "\n");
  Write(directory / "chat_template.jinja", kChatTemplate);
}

}  // namespace trireme
