"""The cases of the equality matrix: every setting that must not change a gradient, the valid combinations, and a small
set of them that covers all pairs of values. Uses neither torch nor the program."""
import functools
import heapq
import itertools
import operator

DENSE = {
    "model": ["llama", "llama3", "qwen2", "qwen3"],
    "tensor": [1, 2, 4],
    "pipeline": [1, 2, 4],
    "data": [1, 2, 3],
    "schedule": ["1f1b", "interleaved", "zero_bubble", "dualpipev"],
    "zero": [0, 1, 2, 3],
    "recompute": ["none", "selective", "full"],
    "sequence": ["true", "false"],
    "micro_batch": [1, 2],
    # mixed: 8 rows, uneven over 3 ranks; one: a single row; silent: one data-parallel rank trains no token
    "rows": ["mixed", "one", "silent"],
    "expert": [1],
    "expert_tensor": [1],
    "context": [1],
    "method": ["none"],
}
# Experts and long sequences: their grids come on top, so the other settings take fewer values. Packed: the rows of
# "mixed", packed into a few.
EXPERTS = ["qwen3_moe", "qwen2_moe", "mixtral", "deepseek_v2", "deepseek_v3"]
WIDE = {**DENSE, "model": ["llama", "qwen3", *EXPERTS], "tensor": [1, 2], "pipeline": [1, 2], "data": [1, 2],
        "schedule": ["1f1b", "zero_bubble"], "expert": [1, 2, 4], "expert_tensor": [1, 2],
        "context": [1, 2, 4], "method": ["none", "ring", "ulysses", "hybrid"],
        "rows": ["mixed", "one", "silent", "packed"]}
# Families that differ from those of DENSE in one trait each: windows, matrices that files fuse, factors, norms.
LIKE = {**WIDE, "model": ["mistral", "ministral", "qwen2_window", "phi3", "phi3_long", "llama_dynamic", "granite", "olmo2", "olmo3", "glm4",
                          "ernie4_5", "hunyuan", "gemma2", "gemma3", "qwen3_5", "internlm2", "internlm3", "baichuan", "minicpm", "minicpm3"],
        "expert": [1], "expert_tensor": [1]}
# And from those of EXPERTS.
LIKE_EXPERTS = {**WIDE, "model": ["glm4_moe", "minimax_m2", "hunyuan_moe", "ernie4_5_moe", "gpt_oss", "qwen3_next",
                                 "qwen3_5_moe"]}
# Families each of whose traits another one above has: fewer settings.
NEAR = {**LIKE, "model": ["seed_oss", "smollm3", "exaone4", "gemma", "glm"], "data": [1], "schedule": ["1f1b"], "zero": [1, 3],
        "micro_batch": [2], "rows": ["mixed", "packed"], "context": [1, 2], "method": ["none", "ring", "ulysses"]}
NEAR_EXPERTS = {**NEAR, "model": ["olmoe", "dots1", "exaone_moe", "hy_v3", "glm4_moe_lite", "solar_open", "bailing_moe"], "expert": [1, 2],
                "expert_tensor": [1, 2]}
NEAR_MODELS = [*NEAR["model"], *NEAR_EXPERTS["model"]]
LIKE_MODELS = [*LIKE["model"], *NEAR["model"]]
LIKE_EXPERT_MODELS = [*LIKE_EXPERTS["model"], *NEAR_EXPERTS["model"]]
WITH_EXPERTS = [*EXPERTS, *LIKE_EXPERT_MODELS]
KINDS = (DENSE, WIDE, LIKE, LIKE_EXPERTS, NEAR, NEAR_EXPERTS)
FREE = ("zero", "recompute", "sequence", "micro_batch")  # valid with everything
FACTORS = {key: list(dict.fromkeys(value for kind in KINDS for value in kind[key])) for key in DENSE}
MOST_RANKS = 8


def ranks(case):
    return case["tensor"] * case["pipeline"] * case["data"] * case["context"]


def is_dense(case):
    return case["model"] in DENSE["model"] and case["context"] == 1 and case["rows"] != "packed"


def virtual_stages(case):
    return 2 if case["schedule"] in ("interleaved", "dualpipev") else 1


def layers(case):
    """The number of layers of the case's model: 5 divide over no pipeline; 8 stages need more."""
    return 5 if case["pipeline"] * virtual_stages(case) <= 5 else 9


def is_valid(case):
    return (ranks(case) <= MOST_RANKS
            and (case["pipeline"] > 1 or case["schedule"] == "1f1b")
            and (case["data"] > 1 or case["rows"] != "silent")
            and ranks(case) // case["pipeline"] % (case["expert"] * case["expert_tensor"]) == 0
            and (case["model"] in WITH_EXPERTS or case["expert"] * case["expert_tensor"] == 1)
            and (case["context"] == 1) == (case["method"] == "none")
            and (case["context"] > 2 or case["method"] != "hybrid")
            # as many heads as ranks that exchange them
            and (case["method"] != "ulysses" or case["tensor"] * case["context"] <= 4))


def cases_of(factors):
    bound = {key: values for key, values in factors.items() if key not in FREE}
    for values in itertools.product(*bound.values()):
        case = dict(zip(bound, values))
        if is_valid(case):
            for free in itertools.product(*(factors[key] for key in FREE)):
                yield case | dict(zip(FREE, free))


@functools.cache
def all_cases():
    """Every valid combination, in a fixed order."""
    unique = {tuple(sorted(case.items())): case for kind in KINDS for case in cases_of(kind)}
    return list(unique.values())


def meetings(case, strength):
    """The combinations of `strength` values that a case covers."""
    return itertools.combinations(case.items(), strength)


def covering(cases, strength=2):
    """A subset of the cases that covers every `strength`-tuple of values occurring in any. Greedy and deterministic:
    most new tuples first, then fewest ranks."""
    bits = {}
    masks = [sum(1 << bits.setdefault(meeting, len(bits)) for meeting in meetings(case, strength)) for case in cases]
    missing, chosen = (1 << len(bits)) - 1, []
    # What a case adds only shrinks, so a number that still holds for the first of the heap is the most of all.
    heap = [(-mask.bit_count(), ranks(case), index) for index, (mask, case) in enumerate(zip(masks, cases))]
    heapq.heapify(heap)
    while missing:
        most, size, best = heapq.heappop(heap)
        new = (masks[best] & missing).bit_count()
        if new == -most:
            chosen.append(cases[best])
            missing &= ~masks[best]
        elif new:
            heapq.heappush(heap, (-new, size, best))
    return chosen


def thinned(cases, most=8000):
    """Fewer cases that cover the same pairs, where there are very many: exact covering takes too long."""
    step = max(1, len(cases) // most) | 1  # odd, so that the free settings alternate
    bits = {meeting for case in cases[::step] for meeting in meetings(case, 2)}
    kept = cases[::step]
    for case in cases if step > 1 else []:
        if not bits.issuperset(new := set(meetings(case, 2))):
            bits |= new
            kept.append(case)
    return kept


def packed_attention(cases):
    """Packed rows on one rank and under each context method, for every family of WIDE; recomputation and micro batches
    alternate. Few ranks and no other layout: what differs is attention."""
    chosen = []
    for index, (model, method) in enumerate(itertools.product(WIDE["model"], WIDE["method"])):
        wanted = dict(model=model, method=method, rows="packed", tensor=1, pipeline=1, data=1, expert=1, expert_tensor=1,
                      recompute=WIDE["recompute"][index % 3], micro_batch=1 + index % 2, zero=1, sequence="true")
        found = [case for case in cases if all(case[key] == value for key, value in wanted.items())]
        chosen += sorted(found, key=ranks)[:1]
    return chosen


LIKE_METHODS = [*(("mistral", method) for method in LIKE["method"]), ("qwen2_window", "none"), ("qwen2_window", "ring"),
                ("phi3", "none"), ("phi3", "ulysses"), ("granite", "none"), ("granite", "ring")]
# Traits that change what a layer computes, each under the layouts that could get it wrong: norms and experts under tensor
# ranks that share the tokens or do not, windows and rotations under context ranks, recomputation.
SPLIT, RING, ULYSSES = dict(tensor=2), dict(context=2, method="ring"), dict(context=2, method="ulysses")
OWN_TRAITS = [("phi3_long", SPLIT | dict(pipeline=2, rows="packed", recompute="selective")), ("phi3_long", ULYSSES | dict(zero=3)),
              ("phi3_long", RING | dict(rows="packed", recompute="full")), ("llama_dynamic", RING | dict(rows="packed")),
              ("llama_dynamic", SPLIT | dict(zero=3, recompute="selective")), ("ministral", RING), ("olmo2", SPLIT | dict(recompute="selective")),
              ("olmo2", SPLIT | RING | dict(sequence="false", rows="packed")),
              ("olmo3", RING | dict(recompute="full")), ("glm4", SPLIT | dict(pipeline=2, recompute="selective")),
              ("glm4", ULYSSES | dict(rows="packed")), ("ernie4_5", SPLIT | dict(zero=3)),
              ("internlm2", SPLIT | dict(pipeline=2, zero=3, recompute="selective")), ("internlm2", RING | dict(rows="packed")),
              ("internlm3", SPLIT | dict(pipeline=2, sequence="false")), ("baichuan", SPLIT | dict(pipeline=2, recompute="full")),
              ("baichuan", RING | dict(data=2, zero=3, rows="packed")), ("minicpm", SPLIT | ULYSSES | dict(rows="packed")),
              ("minicpm", dict(pipeline=2, data=2, zero=3)), ("minicpm3", SPLIT | RING | dict(recompute="selective", rows="packed")),
              ("hunyuan", SPLIT | dict(sequence="false", recompute="full")), ("hunyuan", RING | dict(rows="packed")),
              ("gemma2", SPLIT | RING | dict(recompute="selective")),
              ("gemma2", dict(rows="packed", recompute="full")), ("gemma3", SPLIT | dict(recompute="selective")),
              ("gemma3", RING | dict(rows="packed", zero=2)), ("glm4_moe", SPLIT | dict(expert=2)),
              ("glm4_moe", RING | dict(recompute="selective", rows="packed")),
              ("minimax_m2", SPLIT | dict(expert_tensor=2, sequence="false")),
              ("minimax_m2", dict(data=2, expert=2, zero=2, recompute="full")),
              ("hunyuan_moe", SPLIT | dict(expert=2)), ("ernie4_5_moe", SPLIT | dict(expert=2, recompute="selective")),
              ("gpt_oss", SPLIT | RING | dict(expert_tensor=2, recompute="selective", sequence="false")),
              ("gpt_oss", SPLIT | ULYSSES | dict(expert=2, expert_tensor=2, rows="packed")),
              ("gpt_oss", dict(context=4, method="hybrid", expert=2, zero=3, rows="packed")),
              ("gpt_oss", SPLIT | dict(pipeline=2, expert=2, schedule="zero_bubble", recompute="full")),
              # States along the sequence: heads over tensor ranks, all tokens of some heads on context ranks.
              ("qwen3_next", dict(rows="packed", recompute="selective")), ("qwen3_next", SPLIT | dict(expert=2, zero=3)),
              ("qwen3_next", SPLIT | RING | dict(rows="packed", expert_tensor=2)),
              ("qwen3_next", dict(pipeline=2, schedule="zero_bubble", data=2, expert=2, recompute="full")),
              ("qwen3_5", SPLIT | ULYSSES | dict(sequence="false")),
              ("qwen3_5", dict(context=4, method="ring", rows="packed", recompute="selective")),
              ("qwen3_5", SPLIT | dict(pipeline=2, zero=2)), ("qwen3_5_moe", RING | dict(expert=2))]
# One case of each family of NEAR; with all pairs of settings the second ones, too.
OWN_TRAITS += [("seed_oss", SPLIT | dict(pipeline=2, recompute="selective")), ("smollm3", SPLIT | RING | dict(rows="packed")),
               ("exaone4", SPLIT | RING | dict(rows="packed", recompute="selective")), ("gemma", SPLIT | dict(recompute="full")),
               ("glm", SPLIT | ULYSSES | dict(rows="packed")), ("olmoe", SPLIT | dict(expert=2)),
               ("dots1", SPLIT | dict(expert_tensor=2, sequence="false")),
               ("exaone_moe", SPLIT | RING | dict(expert_tensor=2, rows="packed")),
               ("hy_v3", SPLIT | RING | dict(expert=2, rows="packed", recompute="selective")),
               ("glm4_moe_lite", SPLIT | dict(expert=2, zero=3)), ("solar_open", dict(pipeline=2, context=2, method="ring", expert=2)),
               ("bailing_moe", SPLIT | dict(expert=2, recompute="selective"))]
MORE_TRAITS = [("seed_oss", ULYSSES | dict(zero=3)), ("smollm3", dict(pipeline=2, recompute="selective")), ("exaone4", SPLIT | dict(zero=3)),
               ("gemma", RING | dict(rows="packed")), ("glm", SPLIT | dict(pipeline=2, recompute="selective")),
               ("olmoe", SPLIT | RING | dict(expert_tensor=2, sequence="false", rows="packed")),
               ("dots1", RING | dict(expert=2, rows="packed", recompute="full")), ("exaone_moe", dict(pipeline=2, expert=2, recompute="full", context=2, method="ulysses")),
               ("hy_v3", dict(pipeline=2, recompute="full")),
               ("glm4_moe_lite", RING | dict(rows="packed", recompute="selective")), ("solar_open", SPLIT | dict(expert_tensor=2)), ("bailing_moe", RING | dict(rows="packed", zero=3))]
NEAR_ON_DEVICES = ["smollm3", "bailing_moe"]  # without pairs of settings
NOT_ON_NPU = ["gemma2"]  # soft caps of scores
# On the npu also in these layouts: splits of heads, of sequences, of layers.
NPU_TRAITS = [("gpt_oss", SPLIT | dict(expert=2, recompute="selective")), ("gpt_oss", RING | dict(rows="packed")),
              ("gpt_oss", ULYSSES | dict(expert_tensor=2)), ("gpt_oss", dict(pipeline=2, recompute="full")),
              ("gpt_oss", dict(context=4, method="hybrid", rows="packed")),
              ("qwen3_next", SPLIT | dict(rows="packed", recompute="selective")), ("qwen3_next", RING | dict(expert=2)),
              ("qwen3_next", dict(pipeline=2, recompute="full")), ("qwen3_5", SPLIT | dict(sequence="false")),
              ("qwen3_5", ULYSSES | dict(rows="packed")), ("qwen3_5", dict(pipeline=2, rows="packed"))]


def like_cases(cases, device):
    """Families of LIKE under context methods, windows under each, the other settings in turn; on devices other than the
    cpu some of them."""
    chosen = []
    for index, (model, method) in enumerate(LIKE_METHODS):
        wanted = dict(model=model, method=method, recompute=LIKE["recompute"][index % 3], micro_batch=1 + index % 2,
                      zero=index % 4, sequence=LIKE["sequence"][index // 2 % 2], data=1, schedule="1f1b",
                      rows=("mixed", "packed")[(index + index // 4) % 2], pipeline=1 + index // 4 % 2 * (method == "none"),
                      tensor=1 if method == "hybrid" else 1 + index // 2 % 2)
        chosen += [case for case in cases if all(case[key] == value for key, value in wanted.items())][:1]
    return chosen if device == "cpu" else chosen[::2]


def own_trait_cases(cases, device, more):
    """Those of OWN_TRAITS, `more`: and of MORE_TRAITS, the other settings plain; on devices other than the cpu on one rank."""
    plain = dict(tensor=1, pipeline=1, data=1, schedule="1f1b", zero=1, recompute="none", sequence="true", micro_batch=2,
                 rows="mixed", expert=1, expert_tensor=1, context=1, method="none")
    values = operator.itemgetter(*DENSE)
    there = set(map(values, cases))
    if device != "cpu":
        few = [] if more else [model for model in NEAR_MODELS if model not in NEAR_ON_DEVICES]
        models = [model for model in dict(OWN_TRAITS) if model not in few and (device != "npu" or model not in NOT_ON_NPU)]
        split = [plain | dict(model=model) | changes for model, changes in NPU_TRAITS if device == "npu"]
        return [case for case in [plain | dict(model=model) for model in models] + split if values(case) in there]
    traits = OWN_TRAITS + MORE_TRAITS if more else OWN_TRAITS
    return [case for model, changes in traits for case in [plain | dict(model=model) | changes] if values(case) in there]


def chosen_cases(cases, strength=2, device="cpu"):
    """What a test run covers: all pairs on the mixed rows, since the other rows hide much; every value once on those.
    Dense models by themselves, families like them, then experts and long sequences, where
    packed rows hide nothing; on devices other than the cpu, each of these values once; on the npu also packed rows under
    each context method."""
    chosen = []
    for rows, least in zip(DENSE["rows"], (strength, 1, 1)):
        chosen += covering([case for case in cases if case["rows"] == rows and is_dense(case)], least)
    wide = [case for case in cases
            if case["model"] not in (*LIKE_MODELS, *LIKE_EXPERT_MODELS) and not is_dense(case)
            and case["rows"] != "one"]
    chosen += like_cases(cases, device) + own_trait_cases(cases, device, strength > 1)
    if device != "cpu":
        chosen += covering(wide, 1)
        return chosen + [case for case in packed_attention(wide) if device == "npu" and case not in chosen]
    return chosen + covering(thinned(wide) if strength == 2 else wide, strength)


def settings(case):
    """The program's settings; data parallelism is the rest."""
    keys = ("tensor", "pipeline", "schedule", "zero", "sequence", "expert", "expert_tensor", "context")
    values = {f"parallel.{key}": case[key] for key in keys}
    if case["method"] != "none":
        values["parallel.context_method"] = case["method"]
    values |= {"parallel.virtual_stages": virtual_stages(case), "memory.recompute": case["recompute"],
               "run.micro_batch": case["micro_batch"]}
    return [f"{key}={value}" for key, value in values.items()]


def text(case):
    return (f"{case['model']:11} tp {case['tensor']} pp {case['pipeline']} dp {case['data']} "
            f"ep {case['expert']} etp {case['expert_tensor']} cp {case['context']} {case['method']:7} "
            f"{case['schedule']:11} "
            f"zero {case['zero']} recompute {case['recompute']:9} sequence {case['sequence']:5} "
            f"micro_batch {case['micro_batch']} rows {case['rows']}")
