"""Checkpoints and Hugging Face directories, against their own readers: h5py sees every tensor whole, safetensors the
same bytes after a round trip, transformers the same logits. Then what is refused, and how."""
import collections
import functools
import json
import shutil

import h5py
import peft
import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

import tiny_models
from program import failure_text, run, run_well

CARRIED = {"generation_config.json": '{"eos_token_id": 2}\n', "tokenizer.json": '{"version": "1.0"}',
           "tokenizer_config.json": '{"model_max_length": 128}', "chat_template.jinja": "{{ messages }}\n",
           "merges.txt": "a b\n"}
FAMILIES = {"llama3": None, "qwen2": 2, "qwen3": 3, "llama": None, "mistral": None, "phi3": 2, "granite": None,
            "olmo2": 2, "glm4": 3, "gemma3": None, "hunyuan_moe": 2, "minimax_m2": None, "ernie4_5_moe": 2,
            "gpt_oss": 2, "qwen3_next": 2, "qwen3_5": None, "internlm2": 2, "baichuan": None, "minicpm3": None}  # ranks that convert


def convert(source, target, *more, ranks=None):
    run_well(ranks, ["convert", "--from", source, "--to", target, *more])
    return target


def tensors_of(directory):
    files = sorted(directory.glob("*.safetensors"))
    return {name: tensor for file in files for name, tensor in load_file(file).items()}


def same_tensors(a, b):
    return a.keys() == b.keys() and all(x.dtype == b[name].dtype and torch.equal(x, b[name]) for name, x in a.items())


def h5py_equals(checkpoint, tensors, group="weights"):
    with h5py.File(checkpoint / "index.h5") as file:
        return set(file[group]) == set(tensors) and all(
            torch.equal(torch.from_numpy(file[group][name][()]).float(), tensor.float())
            for name, tensor in tensors.items())


def logits(directory):
    model = transformers.AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32)
    with torch.no_grad():
        return model(torch.arange(20).unsqueeze(0)).logits


Converted = collections.namedtuple("Converted", "model stored back")


@pytest.fixture(scope="module")
def families(folder):
    """By family, made when first asked for: its model, that as a checkpoint, and the Hugging Face directory from it."""
    @functools.cache
    def make(family):
        model = folder / family
        tiny_models.write_model(tiny_models.config_of(family, num_hidden_layers=3), model)
        for name, text in CARRIED.items():
            (model / name).write_text(text)
        stored = convert(model, folder / f"{family}-stored", ranks=FAMILIES[family])
        back = convert(stored, folder / f"{family}-back", "--shard-bytes", 200000, "--verify", ranks=FAMILIES[family])
        return Converted(model, stored, back)
    return make


@pytest.mark.parametrize("family", FAMILIES)
class TestRoundTrip:
    def test_h5py_reads_whole_tensors(self, family, families):
        assert h5py_equals(families(family).stored, tensors_of(families(family).model))

    def test_several_shards_with_an_index(self, family, families):
        assert (families(family).back / "model.safetensors.index.json").is_file()

    def test_the_same_bytes_in_each_tensor(self, family, families):
        assert same_tensors(tensors_of(families(family).model), tensors_of(families(family).back))

    def test_transformers_computes_the_same_logits(self, family, families):
        assert torch.equal(logits(families(family).model), logits(families(family).back))

    @pytest.mark.parametrize("name", [*CARRIED, "config.json"])
    def test_files_are_carried_over(self, name, family, families):
        assert (families(family).back / name).read_bytes() == (families(family).model / name).read_bytes()


@pytest.fixture(scope="module")
def bf16(families, folder):
    """Tensors in bf16 as torch rounds them, and a checkpoint of them."""
    model = families("llama3").model
    halves = {name: tensor.bfloat16() for name, tensor in tensors_of(model).items()}
    return halves, convert(model, folder / "bf16-stored", "--dtype", "bf16")


def test_h5py_reads_bf16_as_float32(bf16):
    assert h5py_equals(bf16[1], bf16[0])


def test_bf16_bytes(bf16, folder):
    back = convert(bf16[1], folder / "bf16-back", ranks=3)
    assert same_tensors(bf16[0], tensors_of(back))
    assert json.loads((back / "config.json").read_text())["dtype"] == "bfloat16"


def test_fp16_as_torch_rounds_it(bf16, folder):
    back = convert(bf16[1], folder / "fp16-back", "--dtype", "fp16")
    assert same_tensors({name: tensor.half() for name, tensor in bf16[0].items()}, tensors_of(back))


def test_layers_that_the_program_does_not_have_are_carried(folder):
    """Qwen3-Next's multi-token prediction: byte for byte through a checkpoint and back, and into a merged model."""
    model = tiny_models.write_model(tiny_models.config_of("qwen3_next", num_hidden_layers=3), folder / "with-mtp")
    extra = {"mtp.fc.weight": torch.randn(64, 128), "mtp.norm.weight": torch.randn(64).bfloat16()}
    save_file({**tensors_of(folder / "with-mtp"), **extra}, folder / "with-mtp" / "model.safetensors", metadata={"format": "pt"})
    back = convert(convert(folder / "with-mtp", folder / "mtp-stored"), folder / "mtp-back")
    assert same_tensors(tensors_of(folder / "with-mtp"), tensors_of(back))
    peft.get_peft_model(model, peft.LoraConfig(r=2, target_modules=["o_proj"])).save_pretrained(folder / "mtp-adapter")
    run_well(None, ["merge", "--model", folder / "with-mtp", "--adapters", folder / "mtp-adapter", "--to", folder / "mtp-merged"])
    merged = tensors_of(folder / "mtp-merged")
    assert same_tensors(extra, {name: merged[name] for name in extra})


def write_run(folder, model, rows, output, **run_keys):
    sections = {"device": "cpu", "model": {"path": str(model), "dtype": "bf16"}, "tuning": {"kind": "full"},
                "data": {"train": [str(rows)], "packing": False, "max_length": 64},
                "optimizer": {"lr": 1e-3, "schedule": "constant"},
                "run": {"steps": 4, "global_batch": 4, "output": str(output), **run_keys},
                "save": {"every": 2}}
    path = folder / "run.yaml"
    path.write_text("".join(f"{key}: {json.dumps(value)}\n" for key, value in sections.items()))
    return path


@pytest.fixture(scope="module")
def trained(folder, families):
    """Rows, and the output of a run on them under tp 2, pp 2."""
    rows, output = folder / "rows.jsonl", folder / "run"
    tiny_models.write_rows(rows, tiny_models.make_rows(8, shortest=8))
    run_well(4, ["train", write_run(folder, families("qwen2").model, rows, output)],
             ["parallel.tensor=2", "parallel.pipeline=2", "parallel.sequence=true"])
    return rows, output


class TestTrainedRun:
    """What a run leaves: final/ is the checkpoint, for h5py, safetensors, transformers and ourselves."""

    def test_h5py_sees_final(self, trained):
        assert h5py_equals(trained[1] / "checkpoint-4", tensors_of(trained[1] / "final"))

    def test_master_weights_and_moments_are_whole(self, trained):
        with h5py.File(trained[1] / "checkpoint-4/index.h5") as file:
            masters = {name: torch.from_numpy(value[()]) for name, value in file["optimizer/master"].items()}
            moments = all(abs(value[()]).max() > 0 for value in file["optimizer/exp_avg_sq"].values())
        final = tensors_of(trained[1] / "final")
        assert all(torch.equal(masters[name].bfloat16(), tensor) for name, tensor in final.items()), "masters"
        assert moments, "moments"

    def test_loss(self, trained, folder):
        """A checkpoint is a model, and transformers finds the same loss in final."""
        rows, output = trained
        losses = [json.loads(run_well(None, ["grads", "--model", directory, "--rows", rows, "--out",
                                             folder / "grads.safetensors"]).stdout)["loss"]
                  for directory in (output / "final", output / "checkpoint-4")]
        assert losses[0] == losses[1]
        model = transformers.AutoModelForCausalLM.from_pretrained(output / "final", dtype=torch.float32)
        theirs, _ = tiny_models.backward(model, tiny_models.make_rows(8, shortest=8))
        assert abs(losses[0] - theirs) <= 1e-5 * theirs, f"loss {losses[0]}, transformers {theirs}, tolerance 1e-5"


class TestInspect:
    def test_checkpoint(self, trained):
        text = run(None, ["inspect", trained[1] / "checkpoint-4", "--digests"]).stdout
        for word in ("tensor 2, pipeline 2", "step 4, 4 updates", "model.norm.weight", "exp_avg_sq/model.norm.weight",
                     "bf16", "every piece matches its digest", "crc32c "):
            assert word in text, f"{word!r} is not in: {text}"

    def test_two_equal_ones(self, families):
        made = families("qwen2")
        text = run(None, ["inspect", made.model, made.stored]).stdout
        assert "no difference in" in text, text

    def test_two_that_differ(self, trained):
        text = run(None, ["inspect", trained[1] / "checkpoint-2", trained[1] / "checkpoint-4"]).stdout
        assert "elements differ, by at most" in text, text

    def test_run(self, trained):
        text = run(None, ["inspect", trained[1]]).stdout
        logged = [json.loads(line) for line in (trained[1] / "log.jsonl").read_text().splitlines()]
        rows = [line for line in text.splitlines() if line.startswith("  checkpoint-")]
        assert [row.split()[0] for row in rows] == ["checkpoint-2", "checkpoint-4"], text
        for row, step in zip(rows, (2, 4)):
            loss = next(line["loss"] for line in logged if line.get("step") == step)
            assert f"loss {loss:.4f}" in row, text


def assert_refused(words, arguments, settings=(), ranks=None, begins=False):
    """`begins`: it is found out only when the run has said what it is about to do."""
    result = run(ranks, arguments, settings)
    assert result.returncode == 2 and (begins or not result.stdout), failure_text(result)
    for word in words:
        assert word in result.stderr, f"{word!r} is not in: {failure_text(result)}"


class TestConvertRefuses:
    def test_a_target_that_exists(self, families):
        made = families("qwen2")
        assert_refused([f"{made.stored} already exists"], ["convert", "--from", made.model, "--to", made.stored])

    def test_no_weights(self, folder):
        assert_refused(["has no weights"], ["convert", "--from", folder, "--to", folder / "x"])
        assert not list(folder.glob("x*")), "something was written"

    def test_an_unknown_type(self, families, folder):
        assert_refused(["--dtype int4", "bf16, fp16 or fp32"],
                       ["convert", "--from", families("qwen2").model, "--to", folder / "x", "--dtype", "int4"])
        assert not list(folder.glob("x*")), "something was written"


@pytest.fixture(scope="module")
def resume(trained, families, folder):
    """resume(CHECKPOINT, …) gives arguments and settings of a run that resumes from it."""
    def arguments(checkpoint, *settings, model=None):
        run_file = write_run(folder, model or families("qwen2").model, trained[0], folder / "again")
        return ["train", run_file], [f"run.resume={checkpoint}", *settings]
    return arguments


@pytest.fixture
def broken(trained, folder):
    """A copy of the last checkpoint, to be broken."""
    shutil.copytree(trained[1] / "checkpoint-4", folder / "broken")
    yield folder / "broken"
    shutil.rmtree(folder / "broken")


def flip(path, place):
    data = bytearray(path.read_bytes())
    data[place] ^= 1
    path.write_bytes(data)


class TestResumeRefuses:
    def test_another_family(self, resume, trained, families):
        assert_refused(["is of a qwen2 model", "model.path is a llama"],
                       *resume(trained[1] / "checkpoint-4", model=families("llama3").model))

    def test_another_model(self, resume, trained, folder):
        wide = folder / "wide"
        tiny_models.write_model(tiny_models.config_of("qwen2", num_hidden_layers=3, intermediate_size=100), wide)
        assert_refused(["is of another model", "mlp.gate_proj.weight' is [96, 64]", "[100, 64]"],
                       *resume(trained[1] / "checkpoint-4", model=wide))

    def test_weights_only(self, resume, families):
        stored = families("qwen2").stored
        assert_refused([str(stored), "weights only"], *resume(stored))

    def test_no_checkpoint(self, resume, families):
        model = families("qwen2").model
        assert_refused([str(model), "is not a checkpoint"], *resume(model))

    def test_another_batch(self, resume, trained):
        assert_refused(["run.global_batch 4", "this run has 8"],
                       *resume(trained[1] / "checkpoint-4", "run.global_batch=8"))

    def test_an_output_with_a_newer_one(self, resume, trained):
        assert_refused(["checkpoint-4, newer than step 2"],
                       *resume(trained[1] / "checkpoint-2", f"run.output={trained[1]}"))

    def test_a_missing_file(self, resume, broken):
        (broken / "rank-00002.h5").unlink()
        assert_refused(["rank-00002.h5", "missing"], *resume(broken))

    def test_a_newer_format(self, resume, broken):
        manifest = (broken / "manifest.pb").read_bytes()
        (broken / "manifest.pb").write_bytes(b"\x08\x07" + manifest[2:])
        assert_refused(["format 7", "1 to 2"], *resume(broken))

    def test_a_flipped_byte(self, resume, broken):
        """On one rank, on two, and when it is inspected."""
        with h5py.File(broken / "rank-00002.h5") as file:
            name, dataset = next(iter(file["exp_avg"].items()))
            place = dataset.id.get_offset()
        flip(broken / "rank-00002.h5", place + 3)
        assert_refused(["rank-00002.h5", name.split("[")[0], "damaged"], *resume(broken), begins=True)
        assert_refused(["rank-00002.h5", "damaged"], *resume(broken), ranks=2, begins=True)
        assert_refused(["rank-00002.h5", "damaged"], ["inspect", broken, "--digests"])


def test_force_replaces(families, folder):
    """Last: it replaces a checkpoint that others read."""
    stored, other = families("qwen2").stored, families("llama3").model
    convert(other, stored, "--force")
    assert h5py_equals(stored, tensors_of(other)) and not list(folder.glob("*.part"))
