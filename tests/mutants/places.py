"""Mutants as data: reads tests/mutants/*.mutants and writes the source tree that holds all of them.

One file per component (a folder of sources). Lines before the first mutant say which tests concern it, as regular
expressions over ctest's names; they run in the order in which they are listed. What follows an expression is appended to
the test's command, to run only a part of it (--gtest_filter=…, -k …). A mutant:

    == name-of-the-mistake
    file: parallel/sharding/bucket.cc
    after: void Bucket::ZeroGradients      (only where the text stands more than once: the next one after this)
    why: what goes wrong
    tests: ^spmd\\.bucket                    (instead of the component's; may be repeated)
    - the text as it is
    + the text as it would be by mistake   (none: it is forgotten)

Spaces and line breaks count as one space. Text that ends in ; or } is one or more statements, all else an expression.
"""
import dataclasses
import pathlib
import re
import subprocess
import zlib

HEADER = "tests/mutants/mutant.h"


class Stale(Exception):
    """A mutant whose text is not, or not once, in its file."""


@dataclasses.dataclass
class Mutant:
    name: str
    component: str
    number: int = 0
    file: str = ""
    after: str = ""
    why: str = ""
    tests: list = dataclasses.field(default_factory=list)
    original: list = dataclasses.field(default_factory=list)
    mistake: list = dataclasses.field(default_factory=list)
    line: int = 0  # in the tree that is written

    def rewritten(self, original):
        mistake, active = " ".join(self.mistake).strip(), f"::trireme_mutant::Active({self.number})"
        if original[-1] in ";}":
            return f"if ({active}) {{ {mistake} }} else {{ {original} }}"
        return f"({active} ? ({mistake}) : ({original}))"


def read_component(path):
    component, tests, mutants = path.stem, [], []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        if line.startswith("== "):
            mutants.append(Mutant(name=line[3:].strip(), component=component))
        elif line[0] in "-+" and mutants:
            (mutants[-1].original if line[0] == "-" else mutants[-1].mistake).append(line[1:].strip())
        else:
            key, _, value = line.partition(": ")
            if key == "tests":
                (mutants[-1].tests if mutants else tests).append(value.strip())
            elif key in ("file", "after", "why") and mutants:
                setattr(mutants[-1], key, value.strip())
            else:
                raise SystemExit(f"{path}:{number}: '{line}'; wanted file:, after:, why:, tests:, - or +")
    for mutant in mutants:
        mutant.tests = mutant.tests or tests
    return mutants


def read_all(folder):
    mutants = [mutant for path in sorted(folder.glob("*.mutants")) for mutant in read_component(path)]
    for mutant in mutants:  # by its name: with a new mutant only its own file is compiled again
        mutant.number = zlib.crc32(mutant.name.encode()) % (2**31 - 1) + 1
    numbers = [mutant.number for mutant in mutants]
    twice = sorted({mutant.name for mutant in mutants if numbers.count(mutant.number) > 1})
    if twice:
        raise SystemExit(f"mutants: rename one of {', '.join(twice)}: they have the same number")
    return mutants


def is_balanced(text):
    depth = 0
    for letter in re.sub(r"'[^']*'|\"[^\"]*\"", "", text):
        depth += (letter in "([{") - (letter in ")]}")
        if depth < 0:
            return False
    return depth == 0


OPERATORS = r"(&&|\|\||==|!=|<=|>=|\+|-|\*|/|%|<|>|\?|:|,|=)"


def flaw(mutant, source):
    """Why the compiler would refuse the mutant in its file's text; empty: it may take it."""
    original, mistake = (re.sub(r"/\*.*?\*/ *", "", " ".join(text)) for text in (mutant.original, mutant.mistake))
    if not original:
        return "has no text"
    if not is_balanced(original) or not is_balanced(mistake):
        return "opens brackets that it does not close, or the other way round"
    if original[-1] not in ";}":
        if re.match(r"(if|for|while|return)\b", original):
            return "begins a statement and does not end it"
        if re.search(OPERATORS + r"$", original) or re.match(r"(&&|\|\||==|!=|<=|>=|/|%|\?|:|,|=)", original):
            return "is half an expression"
        if any(text.count("? ") != text.count(" : ") for text in (original, mistake)):
            return "is half an expression"
        return "" if mistake else "has no expression in place of one"
    before = re.sub(r"//[^\n]*$", "", source[:place_of(mutant, source)[0]], flags=re.MULTILINE).rstrip()
    if not before.endswith((";", "{", "}", ")", ":", "else")):
        return "ends a statement that it does not begin"
    if re.match(r"(?!else\b)[\w:<>]+[ &*]+\w+\([^(){}\[\]]*\) (const )?\{", original):
        return "defines a function; take what stands in its braces"
    declares = re.match(r"(?!return\b)(const )?[\w:<>, ]+[ &*]+\w+ = ", original)
    return "declares a name, which would end with its branch; take the expression alone" if declares else ""


def place_of(mutant, text):
    begin = text.find(mutant.after) if mutant.after else 0
    pattern = r"\s+".join(re.escape(word) for line in mutant.original for word in line.split())
    found = list(re.finditer(pattern, text[max(begin, 0):])) if pattern else []
    if begin < 0 or not found or (len(found) > 1 and not mutant.after):
        raise Stale(f"{mutant.file}: '{' '.join(mutant.original)}' stands there {len(found)} times"
                    + (f" after '{mutant.after}'" if mutant.after else "") + f"; mend mutant {mutant.name}")
    return begin + found[0].start(), begin + found[0].end()


def apart(text, mutants):
    """Begin, end and mutant, in the order of the text."""
    places = sorted(((*place_of(mutant, text), mutant) for mutant in mutants), key=lambda place: place[0])
    for (_, end, one), (begin, _, other) in zip(places, places[1:]):
        if begin < end:
            raise SystemExit(f"mutate: {one.file}: {one.name} and {other.name} overlap; let them stand apart")
    return places


def by_file(mutants):
    files = {}
    for mutant in mutants:
        files.setdefault(mutant.file, []).append(mutant)
    return files


def mutate_text(text, mutants):
    """All mutants of one file; each learns the line on which it stands."""
    places = apart(text, mutants)
    # Not optimised: a mutated file is compiled for a few short tests.
    result, done = f'#pragma GCC optimize("O0")\n#include "{HEADER}"\n', 0
    for begin, end, mutant in places:
        result += text[done:begin]
        mutant.line = result.count("\n") + 1
        result += mutant.rewritten(text[begin:end])
        done = end
    return result + text[done:]


def fits(mutant, root):
    """Whether its text still stands in its file; says so where it does not."""
    try:
        place_of(mutant, (root / mutant.file).read_text())
        return True
    except (Stale, OSError) as error:
        print(f"stale: {error}")
        return False


def write_tree(root, tree, mutants):
    """The sources, with the mutants; what is the same as before keeps its time, so that a build has little to do."""
    waiting = by_file(mutants)
    listed = subprocess.run(["git", "-C", root, "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
                            check=True, capture_output=True, text=True).stdout
    for name in filter(None, listed.split("\0")):
        source, target = root / name, tree / name
        if not source.is_file():
            continue
        content = source.read_bytes()
        if name in waiting:
            content = mutate_text(content.decode(), waiting.pop(name)).encode()
        if not target.is_file() or target.read_bytes() != content:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
        target.chmod(source.stat().st_mode)


def at_errors(output, tree, mutants):
    """Those on whose lines the compiler found errors."""
    found = {(pathlib.Path(match[1]).as_posix(), int(match[2]))
             for match in re.finditer(r"^(\S+?):(\d+):\d+: (?:fatal )?error", output, re.MULTILINE)}
    lines = {}
    for path, line in found:
        path = path.removeprefix(f"{tree}/").lstrip("./")
        lines.setdefault(path, []).append(line)
    return [mutant for mutant in mutants for line in lines.get(mutant.file, [])
            if 0 <= line - mutant.line <= 12 and
            not any(mutant.line < other.line <= line for other in mutants if other.file == mutant.file)]
