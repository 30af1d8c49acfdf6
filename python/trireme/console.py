"""The command `trireme` of an installation: becomes the program, so that signals, exit status and process id are the
program's. Two commands are its own, since they start several ranks: launch and quickstart."""
import os
import sys

from . import installation

OWN = {"launch": "trains with several ranks, on this host or several: trireme launch RUN.yaml --ranks 8",
       "quickstart": "the whole life of a small model, on data that comes with Trireme"}


def become_program(words):
    program = installation.program()
    variables = installation.environment()
    if words in ([], ["--help"]):
        import subprocess
        status = subprocess.run([program, *words], env=variables).returncode
        sys.stdout.write("\ncommands of the installed Trireme only:\n"
                         + "".join(f"  {name:<12}{text}\n" for name, text in OWN.items()))
        return status
    os.execve(program, [program, *words], variables)


def main():
    words = sys.argv[1:]
    try:
        if words and words[0] in OWN:
            from . import starting
            return getattr(starting, words[0])(words[1:])
        return become_program(words)
    except installation.InputError as error:
        print(f"trireme: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"trireme: {error.filename or 'the program'} cannot be used: {error.strerror}", file=sys.stderr)
        return 1
