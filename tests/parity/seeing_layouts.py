"""Layouts of a stage on records with images: all cases of one number of ranks in one launch, and each beside one rank."""
from safetensors.torch import load_file

from gradients import largest_error, relative
from program import Launches, failure_text, run_grads


def launches_of(cases, folder, words):
    """Of (stage, ranks, settings); words(folder, stage, settings, out) is the command line of `grads`."""
    def launch(ranks, some):
        return run_grads(ranks, [words(folder, stage, settings, f"{ranks}-{number}.safetensors")
                                 for number, (stage, _, settings) in enumerate(some)])
    return Launches(cases, lambda case: case[1], launch)


def errors_of(one, found):
    """Of a layout's loss and gradients beside one rank's, which has the same ones."""
    assert one.line is not None, failure_text(one.result)[-2500:]
    assert found.line is not None, failure_text(found.result)[-2500:]
    gradients, wanted = load_file(found.out), load_file(one.out)
    assert gradients.keys() == wanted.keys()
    return {"loss": relative(found.line["loss"], one.line["loss"]), "gradient": largest_error(gradients, wanted)}
