"""The cases of the equality matrix: every setting that must not change a gradient, the combinations that are valid,
and a small set of them in which all pairs of values meet. No torch, no program."""
import itertools

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
    # mixed: 8 rows, which 3 ranks share unevenly; one: a single row; silent: one data-parallel rank trains no token
    "rows": ["mixed", "one", "silent"],
    "expert": [1],
    "expert_tensor": [1],
    "context": [1],
    "method": ["none"],
}
# Models with experts: the grid of experts comes on top, so that the rest takes fewer values.
EXPERTS = {**DENSE, "model": ["qwen3_moe"], "tensor": [1, 2], "pipeline": [1, 2], "data": [1, 2, 4],
           "schedule": ["1f1b", "zero_bubble"], "expert": [1, 2, 4], "expert_tensor": [1, 2]}
# Long sequences: packed are the rows of "mixed", put together into a few.
CONTEXT = {**DENSE, "model": ["llama", "qwen3", "qwen3_moe"], "tensor": [1, 2], "pipeline": [1, 2], "data": [1, 2],
           "schedule": ["1f1b", "zero_bubble"], "expert": [1, 2], "expert_tensor": [1, 2],
           "context": [1, 2, 4], "method": ["none", "ring", "ulysses", "hybrid"], "rows": ["mixed", "one", "silent", "packed"]}
KINDS = (DENSE, EXPERTS, CONTEXT)
FACTORS = {key: list(dict.fromkeys(value for kind in KINDS for value in kind[key])) for key in DENSE}
MOST_RANKS = 8


def ranks(case):
    return case["tensor"] * case["pipeline"] * case["data"] * case["context"]


def virtual_stages(case):
    return 2 if case["schedule"] in ("interleaved", "dualpipev") else 1


def layers(case):
    """Layers of the case's model: 5 divide over no pipeline; 8 stages need more."""
    return 5 if case["pipeline"] * virtual_stages(case) <= 5 else 9


def is_valid(case):
    return (ranks(case) <= MOST_RANKS
            and (case["pipeline"] > 1 or case["schedule"] == "1f1b")
            and (case["data"] > 1 or case["rows"] != "silent")
            and ranks(case) // case["pipeline"] % (case["expert"] * case["expert_tensor"]) == 0
            and (case["model"] in EXPERTS["model"] or case["expert"] * case["expert_tensor"] == 1)
            and (case["context"] == 1) == (case["method"] == "none")
            and (case["context"] > 2 or case["method"] != "hybrid")
            # as many heads as ranks that exchange them
            and (case["method"] != "ulysses" or case["tensor"] * case["context"] <= 4))


def all_cases():
    """Every valid combination, in a fixed order."""
    products = (dict(zip(factors, values)) for factors in KINDS for values in itertools.product(*factors.values()))
    unique = {tuple(case.values()): case for case in products if is_valid(case)}
    return list(unique.values())


def meetings(case, strength):
    """The combinations of `strength` values that meet in a case."""
    return itertools.combinations(case.items(), strength)


def covering(cases, strength=2):
    """A few of the cases in which every `strength` values meet that meet in any. Greedy, always the same: most new
    meetings first, then fewest ranks."""
    bits = {}
    masks = [sum(1 << bits.setdefault(meeting, len(bits)) for meeting in meetings(case, strength)) for case in cases]
    missing, chosen = (1 << len(bits)) - 1, []
    while missing:
        best = max(range(len(cases)), key=lambda i: ((masks[i] & missing).bit_count(), -ranks(cases[i]), -i))
        chosen.append(cases[best])
        missing &= ~masks[best]
    return chosen


def chosen_cases(cases, strength=2):
    """What a test run covers: all pairs on the mixed rows, for the others hide much; every value once on the others.
    Dense models, those with experts and long sequences each by themselves."""
    chosen = []
    for kind in KINDS:
        here = [case for case in cases if all(case[key] in values for key, values in kind.items())]
        if kind is CONTEXT:  # mixed and packed rows in one set
            chosen += covering([case for case in here if case["context"] > 1 or case["rows"] == "packed"], strength)
            continue
        for rows, least in zip(kind["rows"], (strength, 1, 1)):
            chosen += covering([case for case in here if case["rows"] == rows], least)
    return chosen


def settings(case):
    """What the program is told; data parallel is what remains."""
    keys = ("tensor", "pipeline", "schedule", "zero", "sequence", "expert", "expert_tensor", "context")
    values = {f"parallel.{key}": case[key] for key in keys} 
    if case["method"] != "none":
        values["parallel.context_method"] = case["method"]
    values |= {"parallel.virtual_stages": virtual_stages(case), "memory.recompute": case["recompute"],
               "run.micro_batch": case["micro_batch"]}
    return [f"{key}={value}" for key, value in values.items()]


def text(case):
    return (f"{case['model']:9} tp {case['tensor']} pp {case['pipeline']} dp {case['data']} "
            f"ep {case['expert']} etp {case['expert_tensor']} cp {case['context']} {case['method']:7} "
            f"{case['schedule']:11} "
            f"zero {case['zero']} recompute {case['recompute']:9} sequence {case['sequence']:5} "
            f"micro_batch {case['micro_batch']} rows {case['rows']}")
