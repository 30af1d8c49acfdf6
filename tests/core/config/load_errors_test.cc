// Every way in which RUN.yaml or --set can be wrong, with the exact line that the user sees.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/config/load.h"
#include "core/config/names.h"

namespace trireme {
namespace {

struct ErrorCase {
  std::string name;
  std::string yaml;
  std::vector<std::string> overrides;
  std::string wanted;
};

std::string ErrorOf(const ErrorCase& test) {
  try {
    ParseConfig(test.yaml, "run.yaml", test.overrides);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInput);
    return error.what();
  }
  return "no error";
}

const ErrorCase kFileCases[] = {
    // keys
    {"Typo",
     "stage: sft\nparallel:\n  tensr: 2\n",
     {},
     "run.yaml:3: parallel.tensr: unknown key; did you mean parallel.tensor?"},
    {"TypoInFlow",
     "parallel: {pipeline: 1,\n  tensr: 2}\n",
     {},
     "run.yaml:2: parallel.tensr: unknown key; did you mean parallel.tensor?"},
    {"TypoInSection", "paralel: {tensor: 2}\n", {}, "run.yaml:1: paralel: unknown key; did you mean parallel?"},
    {"WrongSection", "\nrun: {lr: 1.0e-4}\n", {}, "run.yaml:2: run.lr: unknown key; did you mean optimizer.lr?"},
    {"NoSection", "tensor: 2\n", {}, "run.yaml:1: tensor: unknown key; did you mean parallel.tensor?"},
    {"DottedKey", "parallel.tensor: 2\n", {}, "run.yaml:1: parallel.tensor: unknown key; write parallel: {tensor: …}"},
    {"NothingNear",
     "memory: {frobnication: 2}\n",
     {},
     "run.yaml:1: memory.frobnication: unknown key; known keys here: recompute, offload_optimizer, offload_reference, "
     "shard_reference, recompute_every, offload_activations, offload_parameters, vision_features_mb"},
    {"CaseMatters", "Device: cpu\n", {}, "run.yaml:1: Device: unknown key; did you mean device?"},
    {"Duplicate",
     "device: cpu\nstage: pt\ndevice: npu\n",
     {},
     "run.yaml:3: device: given twice, first in line 1; keep one"},
    {"DuplicateInSection",
     "run:\n  seed: 1\n  steps: 2\n  seed: 1\n",
     {},
     "run.yaml:4: run.seed: given twice, first in line 2; keep one"},
    {"DuplicateSection",
     "run: {seed: 1}\nrun: {steps: 1}\n",
     {},
     "run.yaml:2: run: given twice, first in line 1; keep one"},
    {"KeyIsAList", "run:\n  [a, b]: 1\n", {}, "run.yaml:2: run: wanted a key, found a list"},
    {"MergeKey", "<<: {device: cpu}\n", {}, "run.yaml:1: <<: merge keys are not supported; write the keys themselves"},
    // integers
    {"IntegerFromText",
     "parallel: {tensor: two}\n",
     {},
     "run.yaml:1: parallel.tensor: wanted an integer of 1 or more, found 'two'"},
    {"IntegerFromReal",
     "parallel: {tensor: 2.0}\n",
     {},
     "run.yaml:1: parallel.tensor: wanted an integer of 1 or more, found '2.0'"},
    {"IntegerFromQuotes",
     "parallel: {tensor: '2'}\n",
     {},
     "run.yaml:1: parallel.tensor: wanted an integer of 1 or more, found '2' in quotes"},
    {"IntegerFromHex",
     "parallel: {tensor: 0x10}\n",
     {},
     "run.yaml:1: parallel.tensor: wanted an integer of 1 or more, found '0x10'"},
    {"IntegerFromNothing",
     "parallel:\n  tensor:\n  zero: 1\n",
     {},
     "run.yaml:2: parallel.tensor: wanted an integer of 1 or more, found nothing"},
    {"IntegerFromList",
     "parallel: {tensor: [1]}\n",
     {},
     "run.yaml:1: parallel.tensor: wanted an integer of 1 or more, found a list"},
    {"IntegerFromKeys",
     "parallel: {tensor: {a: 1}}\n",
     {},
     "run.yaml:1: parallel.tensor: wanted an integer of 1 or more, found keys"},
    {"IntegerTooSmall",
     "parallel: {tensor: 0}\n",
     {},
     "run.yaml:1: parallel.tensor: wanted an integer of 1 or more, found '0'"},
    {"IntegerNegative", "run: {steps: -1}\n", {}, "run.yaml:1: run.steps: wanted an integer of 0 or more, found '-1'"},
    {"IntegerTooLarge",
     "parallel: {zero: 4}\n",
     {},
     "run.yaml:1: parallel.zero: wanted an integer from 0 to 3, found '4'"},
    {"IntegerTooLargeFor32Bits",
     "parallel: {tensor: 2147483648}\n",
     {},
     "run.yaml:1: parallel.tensor: wanted an integer of at most 2147483647, found '2147483648'"},
    {"IntegerTooLargeFor64Bits",
     "run: {seed: 9223372036854775808}\n",
     {},
     "run.yaml:1: run.seed: wanted an integer of at most 9223372036854775807, found '9223372036854775808'"},
    // numbers
    {"NumberFromText",
     "optimizer: {lr: high}\n",
     {},
     "run.yaml:1: optimizer.lr: wanted a number of 0 or more, found 'high'"},
    {"NumberWithUnit",
     "optimizer: {lr: 1e-4x}\n",
     {},
     "run.yaml:1: optimizer.lr: wanted a number of 0 or more, found '1e-4x'"},
    {"NumberInfinite",
     "optimizer: {lr: inf}\n",
     {},
     "run.yaml:1: optimizer.lr: wanted a number of 0 or more, found 'inf'"},
    {"NumberNan", "optimizer: {lr: nan}\n", {}, "run.yaml:1: optimizer.lr: wanted a number of 0 or more, found 'nan'"},
    {"NumberYamlNan",
     "optimizer: {lr: .nan}\n",
     {},
     "run.yaml:1: optimizer.lr: wanted a number of 0 or more, found '.nan'"},
    {"NumberNegative",
     "optimizer: {lr: -0.5}\n",
     {},
     "run.yaml:1: optimizer.lr: wanted a number of 0 or more, found '-0.5'"},
    {"NumberAtOpenEnd",
     "optimizer: {beta1: 1}\n",
     {},
     "run.yaml:1: optimizer.beta1: wanted a number from 0 to below 1, found '1'"},
    {"NumberTooLarge",
     "optimizer: {warmup: 1.5}\n",
     {},
     "run.yaml:1: optimizer.warmup: wanted a number from 0 to 1, found '1.5'"},
    // booleans, enums, strings, lists, sections
    {"BoolFromText", "data: {packing: maybe}\n", {}, "run.yaml:1: data.packing: wanted true or false, found 'maybe'"},
    {"BoolFromNumber", "data: {packing: 1}\n", {}, "run.yaml:1: data.packing: wanted true or false, found '1'"},
    {"BoolFromQuotes",
     "data: {packing: 'true'}\n",
     {},
     "run.yaml:1: data.packing: wanted true or false, found 'true' in quotes"},
    {"EnumUnknown",
     "parallel:\n  schedule: gpipe\n",
     {},
     "run.yaml:2: parallel.schedule: wanted one of 1f1b, interleaved, zero_bubble, dualpipev, found 'gpipe'"},
    {"EnumByItsProtoName",
     "device: DEVICE_CPU\n",
     {},
     "run.yaml:1: device: wanted one of auto, cpu, npu, cuda, found 'DEVICE_CPU'"},
    {"EnumFromList", "device: [cpu]\n", {}, "run.yaml:1: device: wanted one of auto, cpu, npu, cuda, found a list"},
    {"TextFromNothing", "model:\n  path:\n", {}, "run.yaml:2: model.path: wanted a string, found nothing"},
    {"TextFromNull", "model: {path: null}\n", {}, "run.yaml:1: model.path: wanted a string, found nothing"},
    {"TextFromKeys", "model: {path: {a: b}}\n", {}, "run.yaml:1: model.path: wanted a string, found keys"},
    {"ListFromKeys", "data: {train: {a: b}}\n", {}, "run.yaml:1: data.train: wanted a list such as [a, b], found keys"},
    {"ListFromNothing", "data:\n  train:\n", {}, "run.yaml:2: data.train: wanted a list such as [a, b], found nothing"},
    {"ListItemIsAList",
     "data:\n  train:\n    - a\n    - [b]\n",
     {},
     "run.yaml:4: data.train[1]: wanted a string, found a list"},
    {"IntegersFromText",
     "parallel: {stage_layers: all}\n",
     {},
     "run.yaml:1: parallel.stage_layers: wanted an integer of 0 or more, found 'all'"},
    {"IntegerFromFraction",
     "run: {steps: 15e-1}\n",
     {},
     "run.yaml:1: run.steps: wanted an integer of 0 or more, found '15e-1'"},
    {"IntegerTooLargeByItsExponent",
     "run: {seed: 1e19}\n",
     {},
     "run.yaml:1: run.seed: wanted an integer of 0 or more, found '1e19'"},
    // names of other systems
    {"TheirName", "learning_rate: 1e-4\n", {}, "run.yaml:1: learning_rate: unknown key; in Trireme it is optimizer.lr"},
    {"TheirNameInASection",
     "tuning: {lora_rank: 8}\n",
     {},
     "run.yaml:1: tuning.lora_rank: unknown key; in Trireme it is tuning.rank"},
    {"TheirNameWithHyphens",
     "tensor-model-parallel-size: 2\n",
     {},
     "run.yaml:1: tensor-model-parallel-size: unknown key; in Trireme it is parallel.tensor"},
    {"TheirNameThatNothingNeeds",
     "plot_loss: true\n",
     {},
     "run.yaml:1: plot_loss: unknown key; leave it out: loss.svg is always drawn into run.output"},
    // several
    {"AllAtOnce",
     "stage: sftt\nparallel:\n  tensr: 2\n  zero: 9\nrun: {seed: x}\nrun: {}\n",
     {"save.keep=-1", "nothing"},
     "run.yaml:1: stage: wanted one of pt, sft, dpo, kto, orpo, simpo, cpo, rm, grpo, rloo, reinforce_plus_plus, gkd, "
     "ppo, bco, embedding, reranker, classification, found 'sftt'\n"
     "run.yaml:3: parallel.tensr: unknown key; did you mean parallel.tensor?\n"
     "run.yaml:4: parallel.zero: wanted an integer from 0 to 3, found '9'\n"
     "run.yaml:5: run.seed: wanted an integer of 0 or more, found 'x'\n"
     "run.yaml:6: run: given twice, first in line 5; keep one\n"
     "--set save.keep=-1: save.keep: wanted an integer of 0 or more, found '-1'\n"
     "--set nothing: wanted key=value, such as --set parallel.tensor=2"},
    {"IntegerItemIsText",
     "parallel: {stage_layers: [1, two]}\n",
     {},
     "run.yaml:1: parallel.stage_layers[1]: wanted an integer of 0 or more, found 'two'"},
    {"IntegerItemIsQuoted",
     "parallel: {stage_layers: ['1']}\n",
     {},
     "run.yaml:1: parallel.stage_layers[0]: wanted an integer of 0 or more, found '1' in quotes"},
    {"IntegerItemIsBelowItsRange",
     "",
     {"parallel.stage_layers=[1, -1]"},
     "--set parallel.stage_layers=[1, -1]: parallel.stage_layers[1]: wanted an integer of 0 or more, found "
     "'-1'"},
    {"IntegerItemIsTooLarge",
     "parallel: {stage_layers: [4294967297]}\n",
     {},
     "run.yaml:1: parallel.stage_layers[0]: wanted an integer of at most 2147483647, found '4294967297'"},
    {"ListItemIsNothing", "data: {train: [a, ~]}\n", {}, "run.yaml:1: data.train[1]: wanted a string, found nothing"},
    {"SectionFromText", "model: some/dir\n", {}, "run.yaml:1: model: wanted keys such as path, found 'some/dir'"},
    {"SectionFromList", "model: [a]\n", {}, "run.yaml:1: model: wanted keys such as path, found a list"},
    // the document
    {"DocumentIsText", "hello\n", {}, "run.yaml:1: wanted keys such as device: auto, found 'hello'"},
    {"DocumentIsAList", "\n- a\n", {}, "run.yaml:2: wanted keys such as device: auto, found a list"},
    {"SecondDocument", "device: cpu\n---\nstage: pt\n", {}, "run.yaml:2: a second YAML document; wanted only one"},
    {"Anchor",
     "stage: pt\ndevice: &d cpu\n",
     {},
     "run.yaml:2: anchors and aliases are not supported; write the value itself"},
    {"AnchorOnSection",
     "run: &r\n  seed: 1\n",
     {},
     "run.yaml:1: anchors and aliases are not supported; write the value itself"},
    {"Tag",
     "device: !!str cpu\n",
     {},
     "run.yaml:1: tags are not supported; write the value without tag:yaml.org,2002:str"},
    {"NotYaml", "device: cpu\nrun: {seed: 1\n", {}, "run.yaml:3: not YAML: end of map flow not found"},
    {"Tab", "run:\n\tseed: 1\n", {}, "run.yaml:2: not YAML: illegal map value"},
};

const ErrorCase kSetCases[] = {
    {"NoEquals", "", {"parallel.tensor"}, "--set parallel.tensor: wanted key=value, such as --set parallel.tensor=2"},
    {"NoKey", "", {"=2"}, "--set =2: wanted key=value, such as --set parallel.tensor=2"},
    {"Empty", "", {""}, "--set : wanted key=value, such as --set parallel.tensor=2"},
    {"Typo", "", {"parallel.tensr=2"}, "--set parallel.tensr=2: unknown key; did you mean parallel.tensor?"},
    {"TypoInSection", "", {"paralel.tensor=2"}, "--set paralel.tensor=2: unknown key; did you mean parallel.tensor?"},
    {"NoSection", "", {"tensor=2"}, "--set tensor=2: unknown key; did you mean parallel.tensor?"},
    {"BelowAValue",
     "",
     {"parallel.tensor.x=2"},
     "--set parallel.tensor.x=2: unknown key; did you mean parallel.tensor?"},
    {"TrailingDot", "", {"parallel.=2"}, "--set parallel.=2: unknown key; did you mean parallel?"},
    {"NothingNear",
     "",
     {"frobnicate.it=2"},
     "--set frobnicate.it=2: unknown key; known keys here: device, stage, model, tuning, data, parallel, "
     "memory, optimizer, run, comm, ops, experts, multi_token_prediction, reference, preference, rl, distillation, "
     "reference_sync, retrieval, loss, eval, save, log"},
    {"SecondIsWrong",
     "",
     {"run.seed=1", "parallel.tensor=x"},
     "--set parallel.tensor=x: parallel.tensor: wanted an integer of 1 or more, found 'x'"},
    {"NoValue", "", {"model.path="}, "--set model.path=: model.path: wanted a string, found nothing"},
    {"OutOfRange",
     "",
     {"parallel.zero=9"},
     "--set parallel.zero=9: parallel.zero: wanted an integer from 0 to 3, found '9'"},
    {"EnumUnknown", "", {"device=tpu"}, "--set device=tpu: device: wanted one of auto, cpu, npu, cuda, found 'tpu'"},
    {"NotYaml", "", {"data.train=[a"}, "--set data.train=[a: not YAML: end of sequence flow not found"},
    {"ListItem",
     "",
     {"data.train=[a, {b: c}]"},
     "--set data.train=[a, {b: c}]: data.train[1]: wanted a string, found keys"},
    {"SectionTypo", "", {"run={sed: 1}"}, "--set run={sed: 1}: run.sed: unknown key; did you mean run.seed?"},
    {"SectionDuplicate",
     "",
     {"run={seed: 1, seed: 2}"},
     "--set run={seed: 1, seed: 2}: run.seed: given twice; keep one"},
    {"FileIsReadFirst",
     "device: tpu\n",
     {"device=cpu"},
     "run.yaml:1: device: wanted one of auto, cpu, npu, cuda, found 'tpu'"},
};

// Names a failed case in GoogleTest's output.
void PrintTo(const ErrorCase& test, std::ostream* out) { *out << test.yaml; }

class LoadErrorTest : public testing::TestWithParam<ErrorCase> {};

TEST_P(LoadErrorTest, SaysExactly) {
  OfferNames("parallel.schedule", {"1f1b", "interleaved", "zero_bubble", "dualpipev"});
  EXPECT_EQ(ErrorOf(GetParam()), GetParam().wanted);
  OfferNames("parallel.schedule", {});
}

INSTANTIATE_TEST_SUITE_P(File, LoadErrorTest, testing::ValuesIn(kFileCases),
                         [](const auto& info) { return info.param.name; });
INSTANTIATE_TEST_SUITE_P(Set, LoadErrorTest, testing::ValuesIn(kSetCases),
                         [](const auto& info) { return info.param.name; });

TEST(LoadNamesTest, NamesOutsideTheListAreRefused) {
  OfferNames("model.path", {"first", "second"});
  EXPECT_EQ(ErrorOf({"", "model:\n  path: third\n", {}, ""}),
            "run.yaml:2: model.path: wanted one of first, second, found 'third'");
  EXPECT_EQ(ErrorOf({"", "model: {path: second}\n", {}, ""}), "no error");
  OfferNames("model.path", {});
  EXPECT_EQ(ErrorOf({"", "model: {path: third}\n", {}, ""}), "no error");
}

TEST(LoadFileErrorTest, MissingFile) {
  try {
    LoadConfig("no/such/run.yaml");
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "no/such/run.yaml: cannot be read: No such file or directory");
    EXPECT_EQ(error.kind(), ErrorKind::kInput);
  }
}

}  // namespace
}  // namespace trireme
