"""Two hosts for tests of what starts ranks: network namespaces of this machine, connected by a cable, each with a name."""
import os
import pathlib
import subprocess
import tempfile

ADDRESSES = ["10.97.3.1", "10.97.3.2"]


class TwoHosts:
    """Two network namespaces connected by a veth pair. `problem` says why there are none."""

    def __init__(self):
        self.names = [f"trl{os.getpid()}{side}" for side in "ab"]
        self.problem = ""
        self.files = tempfile.TemporaryDirectory()
        self.names_file = pathlib.Path(self.files.name) / "hosts"
        self.names_file.write_text("127.0.0.1 localhost\n" + "".join(
            f"{address} node{host}\n" for host, address in enumerate(ADDRESSES)))
        for host in range(2):
            (self.names_file.parent / str(host)).mkdir()
        cable = [f"trl{os.getpid()}{side}" for side in "xy"]
        for name in self.names:
            self.ip("netns", "add", name)
        self.ip("link", "add", cable[0], "type", "veth", "peer", "name", cable[1])
        for name, end, address in zip(self.names, cable, ADDRESSES):
            self.ip("link", "set", end, "netns", name, "name", "cable")
            self.ip("-n", name, "addr", "add", f"{address}/24", "dev", "cable")
            for device in ("lo", "cable"):
                self.ip("-n", name, "link", "set", device, "up")

    def ip(self, *arguments):
        if self.problem:
            return
        result = subprocess.run(["ip", *arguments], capture_output=True, text=True)
        if result.returncode != 0:
            self.problem = f"ip {' '.join(arguments)}: {result.stderr.strip()}"

    def close(self):
        for name in self.names:
            subprocess.run(["ip", "netns", "del", name], capture_output=True)
        self.files.cleanup()

    def on(self, host, command):
        """The command that runs there, on a host with a name of its own that both know and a /var/tmp of its own."""
        inner = (f"hostname node{host}; mount --bind {self.names_file} /etc/hosts; "
                 f"mount --bind {self.files.name}/{host} /var/tmp; exec \"$@\"")
        enter = ["nsenter", f"--net=/run/netns/{self.names[host]}", "unshare", "--uts", "--mount"]
        return [*enter, "bash", "-c", inner, "bash", *command]
