// `trireme tokenizer --text FILE --vocabulary N --to DIR`: a tokenizer for a model trained from scratch.
#include <iostream>

#include "core/cli/command.h"
#include "core/comm/job.h"
#include "text/tokenizer.h"
#include "text/tokenizer_training.h"

namespace trireme {
namespace {

void RunTokenizer(const Arguments& arguments, Job& job) {
  if (job.rank() != 0) return;
  const std::string directory = arguments.value("to");
  TrainTokenizer(arguments.values("text"), arguments.integer("vocabulary", 0, 1), directory);
  std::cout << directory << "/tokenizer.json: " << Tokenizer(directory).vocabulary() << " tokens\n";
}

}  // namespace

Command TokenizerCommand() {
  return {.name = "tokenizer",
          .summary =
              "Trains a tokenizer on texts: byte-level BPE with a chat template, for a model trained "
              "from scratch.",
          .options = {{.name = "text",
                       .value_name = "FILE",
                       .help = "a text file to train on; may be repeated",
                       .required = true,
                       .repeatable = true},
                      {.name = "vocabulary",
                       .value_name = "N",
                       .help = "largest number of tokens, including special ones",
                       .required = true},
                      {.name = "to",
                       .value_name = "DIR",
                       .help = "the directory to write tokenizer.json, tokenizer_config.json and "
                               "chat_template.jinja into",
                       .required = true}},
          .run = RunTokenizer};
}

}  // namespace trireme
