// PassInput: one micro batch: tokens, their labels, and which documents and samples they belong to. Rows of
// equal length, padded at the end; with context parallelism this rank's share of each row's tokens. How and
// why it is computed is in PassContext.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "core/io/content_digest.h"
#include "parallel/context/context_plan.h"
#include "parallel/pass/facts_by_type.h"
#include "parallel/pass/image_positions.h"

namespace trireme {

// The images of the micro batch's rows, one after another, whichever context rank has their tokens.
struct ImageFacts {
  at::Tensor patches = {};  // [patches, elements of a patch] fp32; undefined: there are none
  std::vector<ImageGrid> grids = {};
  std::vector<ContentDigest> contents = {};  // which images they are; empty: whoever made the input does not say
  // In host memory: [rows · length] int64: the image token that each token of this rank is, among those of all images;
  // -1: none.
  at::Tensor token_of = {};
};

struct PassInput {
  int64_t rows = 0;
  int64_t length = 0;
  at::Tensor tokens;     // [rows · length] int64
  at::Tensor labels;     // [rows · length] int64: the token after each one, -100 where it is not trained
  at::Tensor positions;  // [rows · length] int64
  // [3, rows · length] int64: by time, row and column, where rows have images; undefined: all three are `positions`.
  at::Tensor image_positions = {};
  // [trained] int64: where labels are trained, known before anything is on a device, so that no pass has to
  // wait for their number; undefined where whoever made the input does not say.
  at::Tensor trained = {};
  at::Tensor real = {};      // [rows · length] bool: false for padding
  at::Tensor sequence = {};  // [rows · length] int64: which of the micro batch's documents; -1 for padding
  int64_t sequences = 0;     // documents of the micro batch
  // Tokens of the micro batch that are no padding, over all ranks that share it; -1: whoever made the input does not
  // say.
  int64_t real_tokens = -1;
  // [sequences]: the index of each document's last token among this rank's; -1: another context rank has it.
  std::vector<int64_t> last_tokens = {};
  at::Tensor order = {};  // [rows · length] int64: position among all tokens of the micro batch
  std::shared_ptr<const ContextPlan> context = {};  // which tokens attend to which, here and on other ranks
  // Identifies the tokens within the step, independent of the layout; in host memory: [rows · length] int64.
  at::Tensor identities = {};
  // The length of each token's document, over all context ranks; in host memory: [rows · length] int64.
  at::Tensor document_tokens = {};
  // [rows · length] fp32, by label: what its log-probability counts in an objective that takes weights, or
  // in its answer's; undefined where the data has none.
  at::Tensor weights = {};
  // [sequences]: the sample of the step that each document belongs to. Documents of one sample (a pair, a
  // group) are in one micro batch.
  std::vector<int64_t> samples = {};
  FactsByType facts =
      {};  // what its objective knows of the micro batch beside these (answer_facts.h, policy_facts.h …)
  ImageFacts images = {};
  // LoRA adapters that hold several models' side by side: how many, and in host memory [rows · length] int64 which of
  // them each token uses; -1: none. Undefined: every token uses all of the adapters.
  int64_t adapter_slots = 1;
  at::Tensor slot_of = {};
  // By depth of multi-token prediction: the same positions, with tokens and labels that stand as many further on
  // in the same document; empty where nothing of the kind is trained.
  std::vector<PassInput> mtp = {};
};

}  // namespace trireme
