"""A parity test's expectations, printed line by line; the test fails if `failures` is not empty at its end."""
failures = []


def expect(condition, name, text=""):
    print(f"{'ok' if condition else 'FAILED'}: {name} {'' if condition else text}", flush=True)
    if not condition:
        failures.append(name)
