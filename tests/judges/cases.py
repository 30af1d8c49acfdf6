"""Runs the cases of a parity test one after the other: a case is a function that asserts, and its failure does not stop
the others. Knows nothing of what is compared."""
CASES = []


def case(function):
    CASES.append(function)
    return function


def run_cases():
    """Prints a line per case, in the order of their definition; returns the number of failures."""
    failed = 0
    for run in CASES:
        try:
            run()
            print(f"ok: {run.__name__}")
        except Exception as error:
            failed += 1
            print(f"FAILED: {run.__name__}: {type(error).__name__}: {error}")
    return failed
