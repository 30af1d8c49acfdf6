"""Where the program is and what it needs around it: torch, Open MPI, libpython. Every command passes through here, so
nothing heavy is imported, torch least of all. In a clone of the repository the program is build/trireme."""
import importlib.util
import os
import pathlib
import re
import shutil
import sys

from .variant import DEVICE, DISTRIBUTION, TORCH_VERSION

PACKAGE = pathlib.Path(__file__).resolve().parent
VARIANTS = ("train", "npu", "cuda")  # trireme-train and so on

LEAST_GLIBC = (2, 35)  # the wheel's manylinux tag (scripts/package)
# launch/thread_waits.cc's: the program would set it and start itself again, which loads torch twice.
SHORT_SPINS = "3000"


class InputError(ValueError):
    """The input or the environment is wrong; the text says what to do. The program's exit status 2."""


def is_installed():
    return (PACKAGE / "bin/trireme").is_file()


def scripts():
    """The folder with run.sh and its like."""
    return PACKAGE / "scripts" if is_installed() else PACKAGE.parent.parent / "scripts"


def program():
    """TRIREME, the program of this package, or that of the clone around it."""
    named = os.environ.get("TRIREME")
    path = pathlib.Path(named) if named else PACKAGE / "bin/trireme" if is_installed() else PACKAGE.parent.parent / "build/trireme"
    if not os.access(path, os.X_OK):
        raise InputError(f"{path} is not a program that can be run; " + (
            "set TRIREME to another" if named else f"install {DISTRIBUTION} again" if is_installed() else "run scripts/build"))
    return str(path.absolute())


def check_glibc():
    """pip refuses the wheel on older systems; copied there by hand it would end in the loader's message."""
    try:
        found = os.confstr("CS_GNU_LIBC_VERSION") or ""
    except (ValueError, OSError):  # no glibc, such as musl
        found = ""
    version = re.fullmatch(r"glibc (\d+)\.(\d+).*", found)
    if not version or (int(version[1]), int(version[2])) < LEAST_GLIBC:
        raise InputError(f"this system has {found or 'no glibc'}; this Trireme needs glibc {LEAST_GLIBC[0]}.{LEAST_GLIBC[1]} or newer: "
                         "use Debian 12, Ubuntu 22.04, openEuler 24.03 or newer, in a container if need be, or build from the sources")


def check_alone():
    """Two variants have the same files, and pip lets the later one write over the earlier one's."""
    found = [f"trireme-{name}" for name in VARIANTS if any(PACKAGE.parent.glob(f"trireme_{name}-*.dist-info"))]
    if len(found) > 1:
        raise InputError(f"{' and '.join(found)} are both installed in {PACKAGE.parent}, and each has written over the other's files: "
                         f"pip uninstall {' '.join(found)}, then install one of them")


def cann_libraries():
    """The folder of the host's libascendcl, which no package contains."""
    home = os.environ.get("ASCEND_HOME_PATH")
    if not home:
        raise InputError(f"{DISTRIBUTION} needs CANN, and ASCEND_HOME_PATH is not set: source set_env.sh of its toolkit, such as "
                         "/usr/local/Ascend/ascend-toolkit/set_env.sh, or install trireme-train, which needs none")
    for name in ("libascendcl.so", "libhccl.so"):
        if not pathlib.Path(home, "lib64", name).is_file():
            raise InputError(f"ASCEND_HOME_PATH is {home}, and there is no lib64/{name}: install CANN's toolkit there, or source the "
                             "set_env.sh of the one that you have")
    return pathlib.Path(home, "lib64")


def version_of(torch):
    found = re.search(r"__version__ = ['\"]([^'\"]+)", (torch / "version.py").read_text())
    return found[1] if found else "of unknown version"


def torch_folder():
    """The torch that the program loads, found without importing it. One of another version would crash, not complain."""
    own = f"pip install torch=={TORCH_VERSION}, or give Trireme an environment of its own"
    beside = PACKAGE.parent / "torch"
    if not (beside / "lib/libtorch_cpu.so").is_file():  # a user's packages beside a system's
        spec = importlib.util.find_spec("torch")
        if spec is None or not spec.origin:
            raise InputError(f"this environment has no torch; wanted {TORCH_VERSION}: {own}")
        beside = pathlib.Path(spec.origin).parent
    version = version_of(beside)
    if version.split("+")[0] != TORCH_VERSION:
        raise InputError(f"{beside} is torch {version}; this Trireme is linked to {TORCH_VERSION}, and torch's C++ "
                         f"interface changes between versions: {own}")
    return beside


def libpython():
    """For device npu, which runs torch_npu in the program; empty where this Python has none as a file."""
    import sysconfig
    path = pathlib.Path(sysconfig.get_config_var("LIBDIR") or "", sysconfig.get_config_var("INSTSONAME") or "none")
    return str(path) if path.suffix != ".a" and path.is_file() else ""


def put_first(variables, name, folder):
    rest = variables.get(name)
    variables[name] = f"{folder}:{rest}" if rest else str(folder)


def of_this_environment(mpirun):
    return pathlib.Path(mpirun).absolute().parent == pathlib.Path(sys.prefix).absolute() / "bin"


def environment():
    """The variables that the program, and what it starts, are given."""
    variables = dict(os.environ)
    if is_installed():
        check_glibc()
        check_alone()
        torch = torch_folder()
        if torch.parent != PACKAGE.parent:
            put_first(variables, "LD_LIBRARY_PATH", torch / "lib")
        if DEVICE == "npu" and str(libraries := cann_libraries()) not in variables.get("LD_LIBRARY_PATH", "").split(":"):
            put_first(variables, "LD_LIBRARY_PATH", libraries)
        if "TRIREME_LIBPYTHON" not in variables and (path := libpython()):
            variables["TRIREME_LIBPYTHON"] = path
    variables.setdefault("TRIREME_PYTHON", sys.executable)  # for reward functions: python:FILE.py:FUNCTION
    if not {"GOMP_SPINCOUNT", "OMP_WAIT_POLICY"} & variables.keys() and variables.get("OMP_NUM_THREADS") != "1":
        variables["GOMP_SPINCOUNT"] = SHORT_SPINS
    own = pathlib.Path(sys.prefix, "bin/mpirun")
    if not shutil.which("mpirun") and own.is_file():  # the environment is not activated
        put_first(variables, "PATH", own.parent)
    mpirun = shutil.which("mpirun", path=variables.get("PATH"))
    if mpirun and of_this_environment(mpirun):
        # MPI only brings ranks together here; looking for fast networks would cost each start a second.
        variables.setdefault("OMPI_MCA_pml", "ob1")
        variables.setdefault("OMPI_MCA_btl", "self,vader,tcp")
    return variables
