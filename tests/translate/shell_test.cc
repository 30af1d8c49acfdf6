// Scripts as commands: what a shell would hand to the program, and what only a shell knows.
#include <gtest/gtest.h>

#include "translate/shell.h"

namespace trireme {
namespace {

using Words = std::vector<std::string>;

Words First(const std::string& script) {
  const auto commands = ReadScript(script);
  return commands.empty() ? Words{} : commands.front().words;
}

TEST(Shell, ContinuedLinesQuotesAndComments) {
  EXPECT_EQ(First("# a comment\nswift sft \\\n    --system 'two words' \\\n  --x \"a\\\"b\" # the end\n"),
            (Words{"swift", "sft", "--system", "two words", "--x", "a\"b"}));
  EXPECT_EQ(First("a --b \\  \n --c 1 | tee log.txt"), (Words{"a", "--b", "--c", "1"}));
  EXPECT_EQ(First("a > log 2>&1 --c"), (Words{"a", "--c"}));
}

TEST(Shell, VariablesDefaultsAndSums) {
  const std::string script =
      "TP=2\nN=$((TP * 4))\nARGS=\"\n  --tp ${TP} \\\n  --n $N\n\"\nrun $ARGS --x ${Y:-7} \"$TP x\"\n";
  EXPECT_EQ(First(script), (Words{"run", "--tp", "2", "--n", "8", "--x", "7", "2 x"}));
  EXPECT_EQ(First("n=4\nrun $(expr 16 / $n) \"$@\" ''"), (Words{"run", "4", ""}));
}

TEST(Shell, ArraysAndAdditions) {
  EXPECT_EQ(First("A=(\n --x 1  # one\n --y 'a b'\n)\nA+=(--z)\nrun \"${A[@]}\" $UNSET_ARGS --end"),
            (Words{"run", "--x", "1", "--y", "a b", "--z", "--end"}));
}

TEST(Shell, EnvironmentBeforeACommandAndExported) {
  const auto commands = ReadScript("export NNODES=2\nA=1 \\\nNPROC_PER_NODE=8 swift sft\n");
  ASSERT_EQ(commands.size(), 1u);
  EXPECT_EQ(commands[0].environment.at("NPROC_PER_NODE"), "8");
  EXPECT_EQ(commands[0].environment.at("NNODES"), "2");
}

TEST(Shell, ConditionsThatTheScriptItselfAnswers) {
  const std::string script =
      "A=${A:-1}\nB=x\nif [ \"$A\" = 1 ] && [[ $B == y* || -n \"$B\" ]]; then\n  X=(--one)\nelse\n  X=(--other)\nfi\n"
      "if [ $A -gt 1 ]; then\n  X+=(--more)\nelif [ -z \"\" ]; then\n  X+=(--less)\nfi\nrun \"${X[@]}\"\n";
  EXPECT_EQ(First(script), (Words{"run", "--one", "--less"}));
  EXPECT_EQ(ReadScript(script, {{"A", "2"}}).back().words, (Words{"run", "--other", "--more"}));
  EXPECT_EQ(ReadScript(script).back().notes, (Words{}));
}

TEST(Shell, CasesByTheirPatterns) {
  const std::string script =
      "case \"${KIND:-b}\" in\n  a | c)\n    X=1\n    ;;\n  b*)\n    X=2\n    case 7 in 7) Y=3 ;; esac\n    ;;\n  *) "
      "X=4 ;;\n"
      "esac\nrun $X $Y\n";
  EXPECT_EQ(First(script), (Words{"run", "2", "3"}));
  EXPECT_EQ(ReadScript(script, {{"KIND", "c"}}).back().words, (Words{"run", "1", "${Y}"}));
  EXPECT_EQ(ReadScript("case $(uname) in\n a) X=1 ;;\n *) X=2 ;;\nesac\nrun $X\n").back().words,
            (Words{"run", "${X}"}));
}

TEST(Shell, AndOrDecideForTheNextCommand) {
  EXPECT_EQ(ReadScript("N=2\n[ $N -gt 1 ] && X=a || X=b\n[ $N -gt 3 ] && Y=a || Y=b\nrun $X $Y\n").back().words,
            (Words{"run", "a", "b"}));
  EXPECT_EQ(ReadScript("X=1\n[ -d /some ] && X=2\nrun $X\n").back().words, (Words{"run", "1"}));
}

TEST(Shell, AnEmptyVariableTakesItsDefault) {
  EXPECT_EQ(First("A=${A:-}\nA=${A:-2}\nB=\nrun $A ${B:+set} ${A:+set} --x \"$B\""),
            (Words{"run", "2", "set", "--x", ""}));
}

TEST(Shell, AMachineWithNpusIsTaken) {
  const auto commands =
      ReadScript("D=${D:-$(python3 -c 'import torch_npu' 2>/dev/null && echo npu || echo gpu)}\nrun $D\n");
  EXPECT_EQ(commands.back().words, (Words{"run", "npu"}));
  EXPECT_EQ(commands.back().notes, (Words{"the script asks whether torch_npu is installed; npu is taken"}));
}

TEST(Shell, TheScriptsOwnDirectoryIsKnown) {
  const std::string script = "D=\"$(cd \"$(dirname \"${BASH_SOURCE[0]}\")/..\" && pwd)\"\nrun $D/x\n";
  EXPECT_EQ(ReadScript(script, {}, "/a/b/run.sh").back().words, (Words{"run", "/a/x"}));
  EXPECT_EQ(UnknownIn(ReadScript(script).back().words[1]).substr(0, 2), "cd");
}

TEST(Shell, TheHomeDirectoryIsATilde) {
  EXPECT_EQ(First("run $HOME/data ${HOME}/x"), (Words{"run", "~/data", "~/x"}));
  EXPECT_EQ(ReadScript("HOME=/h\nrun $HOME/x").back().words, (Words{"run", "/h/x"}));
}

TEST(Shell, APlaceholderIsAWord) {
  EXPECT_EQ(First("run --host <node1_ip> <node2_ip> --x 1 < in > out"),
            (Words{"run", "--host", "<node1_ip>", "<node2_ip>", "--x", "1"}));
}

TEST(Shell, FunctionsMayOrMayNotRun) {
  EXPECT_EQ(ReadScript("X=1\nset_up() {\n  X=2\n}\nrun $X\n").back().words, (Words{"run", "1"}));
  EXPECT_EQ(ReadScript("X=1\nfunction set_up {\n  X=2\n}\n{ Y=3; }\nrun $X $Y\n").back().words,
            (Words{"run", "1", "3"}));
}

TEST(Shell, WhatOnlyAShellKnowsStaysAsText) {
  const auto commands =
      ReadScript("HOST=$(hostname)\nif [ -z \"$X\" ]; then\n  X=3\nfi\nrun --h $HOST --x $X --y $Y\n");
  const Words& words = commands.back().words;
  EXPECT_EQ(words, (Words{"run", "--h", "$(hostname)", "--x", "${X}", "--y", "${Y}"}));
  const auto kept = ReadScript("X=1\nif grep -q a b; then\n  X=2\nfi\nrun $X\n");
  EXPECT_EQ(kept.back().words, (Words{"run", "1"}));
  EXPECT_EQ(kept.back().notes, (Words{"X is also set within a condition, in line 3; its value before is taken"}));
  EXPECT_EQ(UnknownIn(words[2]), "hostname");
  EXPECT_EQ(UnknownIn(words[4]), "X");
  EXPECT_EQ(UnknownIn("plain"), "");
  EXPECT_EQ(ReadScript("run $X", {{"X", "5"}}).front().words, (Words{"run", "5"}));
}

}  // namespace
}  // namespace trireme
