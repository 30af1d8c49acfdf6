// How the records of a described data set are written: which columns hold what, and what roles are called. Turns such a
// record into the one that samples.h and answer_samples.h read, by the rules of LLaMA-Factory. Opens no file.
#pragma once

#include <string>

#include "core/base/json.h"

namespace trireme {

// Keys of a record, and tags of its messages; an empty name: the data set has none.
struct RecordForm {
  bool conversations = false;  // formatting sharegpt; otherwise alpaca
  bool ranking = false;        // chosen and rejected answers
  bool plain_text = false;     // for stage pt: a prompt without a response is a text
  std::string prompt = "instruction", query = "input", response = "output", history;
  std::string messages = "conversations", system, tools, images, videos, audios;
  std::string chosen, rejected, kto_tag;
  std::string role_tag = "from", content_tag = "value";
  std::string user_tag = "human", assistant_tag = "gpt", observation_tag = "observation";
  std::string function_tag = "function_call", system_tag = "system";
  std::string digest;  // of all that: what is cached under this form is found under no other one
};

// Columns that the form does not name are dropped. An input error states what is wrong; it does not name the location.
Json ReadFormed(const Json& record, const RecordForm& form);

}  // namespace trireme
