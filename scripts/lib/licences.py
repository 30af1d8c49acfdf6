"""For scripts/package: the licences of every part that a wheel contains, and a bill of materials (CycloneDX) of the parts that
auditwheel does not see because they are linked in: crates, archives, headers. Reads cargo's and dpkg's own records."""
import json
import pathlib
import subprocess

# Linked into the program from archives or headers, by the Debian package that has them.
LINKED_IN = ("libhdf5-dev", "nlohmann-json3-dev", "libprotobuf-dev", "libboost-dev")
TEXTS = ("LICENSE*", "LICENCE*", "COPYING*", "COPYRIGHT*", "UNLICENSE*", "NOTICE*")


def crates(root):
    """What Cargo.lock builds for this machine; from cargo's cache, without a network."""
    cargo = subprocess.run([root / "scripts/lib/find_cargo"], check=True, capture_output=True, text=True).stdout.strip()
    data = subprocess.run([cargo, "metadata", "--format-version", "1", "--locked", "--offline", "--manifest-path",
                           root / "text/Cargo.toml"], check=True, capture_output=True, text=True).stdout
    return sorted((crate for crate in json.loads(data)["packages"] if crate["source"]), key=lambda crate: (crate["name"], crate["version"]))


def debian(package):
    """(version, text) of an installed package; empty where it is not."""
    query = subprocess.run(["dpkg-query", "-W", "-f", "${Version}", package], capture_output=True, text=True)
    path = pathlib.Path("/usr/share/doc", package, "copyright")
    return (query.stdout, path.read_text(errors="replace")) if query.returncode == 0 and path.is_file() else ("", "")


def copied_packages(info):
    """Names of the packages whose libraries auditwheel copied, by its own bill."""
    names = set()
    for path in (info / "sboms").glob("auditwheel*.json"):
        for part in json.loads(path.read_text()).get("components", []):
            if str(part.get("purl", "")).startswith("pkg:deb"):
                names.add(part["name"])
    return names


def crate_text(crate):
    folder = pathlib.Path(crate["manifest_path"]).parent
    files = sorted({path for pattern in TEXTS for path in folder.glob(pattern) if path.is_file()})
    return "\n".join(path.read_text(errors="replace") for path in files)


def write(root, info, distribution, version):
    folder = info / "licenses"
    folder.mkdir(exist_ok=True)
    (folder / "LICENSE").write_bytes((root / "LICENSE").read_bytes())
    parts, texts = [], []
    for package in sorted({*LINKED_IN, *copied_packages(info)}):
        number, text = debian(package)
        if number:
            texts.append(f"==== {package} {number}\n\n{text}")
        if number and package in LINKED_IN:
            parts.append({"type": "library", "name": package, "version": number, "purl": f"pkg:deb/debian/{package}@{number}"})
    (folder / "LIBRARIES.txt").write_text("\n".join(texts))
    texts = []
    for crate in crates(root):
        name, number, licence = crate["name"], crate["version"], crate["license"] or "see the text"
        parts.append({"type": "library", "name": name, "version": number, "purl": f"pkg:cargo/{name}@{number}",
                      "licenses": [{"expression": licence.replace("/", " OR ")}]})
        texts.append(f"==== {name} {number} ({licence})\n\n{crate_text(crate)}")
    (folder / "CRATES.txt").write_text("\n".join(texts))
    bill = {"bomFormat": "CycloneDX", "specVersion": "1.4", "version": 1,
            "metadata": {"component": {"type": "application", "name": distribution, "version": version}}, "components": parts}
    (info / "sboms").mkdir(exist_ok=True)
    (info / "sboms/trireme.cdx.json").write_text(json.dumps(bill, indent=1) + "\n")
