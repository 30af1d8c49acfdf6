"""What a judge expects, said line by line; a judge fails where `failures` is not empty at its end."""
failures = []


def expect(condition, name, text=""):
    print(f"{'ok' if condition else 'FAILED'}: {name} {'' if condition else text}", flush=True)
    if not condition:
        failures.append(name)
