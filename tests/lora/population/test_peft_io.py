import copy
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors.torch import load_file, save_file
from tiny_models import tiny_host, tiny_population

from evolora_core.errors import AdapterError
from evolora_core.lora.population.adapter import Adapter
from evolora_core.lora.population.lora import attached
from evolora_core.lora.population.peft_io import export_peft, import_peft
from evolora_core.lora.population.stack import Population

IDS = torch.arange(10, 34).view(4, 6)


def logits_of(host: Any, adapter: Any) -> Any:
    population = Population.empty(host, 1, adapter.rank)
    population.put(0, adapter)
    with torch.no_grad(), attached(host.model, population) as adapters:
        adapters.rows(np.zeros(len(IDS), dtype=int))
        return host.model(input_ids=IDS).logits


def randomised(model: Any) -> Any:
    """A PEFT model whose B is not zero any more."""
    rng = torch.Generator().manual_seed(5)
    for name, parameter in model.named_parameters():
        if "lora_B" in name:
            parameter.data = 0.1 * torch.randn(parameter.shape, generator=rng)
    return model.eval()


def test_peft_loads_what_is_exported_and_gives_the_same_logits(host: Any, population: Any, tmp_path: Path) -> None:
    for slot in range(population.capacity):
        export_peft(population.get(slot), host, tmp_path / str(slot))
        model = PeftModel.from_pretrained(copy.deepcopy(host.model), tmp_path / str(slot)).eval()
        with torch.no_grad():
            theirs = model(input_ids=IDS).logits
        torch.testing.assert_close(logits_of(host, population.get(slot)), theirs, atol=1e-4, rtol=1e-4)
        config = json.loads((tmp_path / str(slot) / "adapter_config.json").read_text())
        assert config["lora_alpha"] == population.scale * config["r"]


def test_export_then_import_is_the_same_adapter_and_the_same_bytes(host: Any, population: Any, tmp_path: Path) -> None:
    adapter = population.get(1)
    export_peft(adapter, host, tmp_path / "a")
    found = import_peft(tmp_path / "a", host)
    assert (found.rank, found.scale) == (adapter.rank, adapter.scale)
    assert found.A.keys() == adapter.A.keys()
    assert all(torch.equal(found.A[n], adapter.A[n]) and torch.equal(found.B[n], adapter.B[n]) for n in adapter.A)
    export_peft(found, host, tmp_path / "b")
    for name in ("adapter_config.json", "adapter_model.safetensors"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


@pytest.mark.parametrize(
    "options",
    [
        {"r": 4, "lora_alpha": 16, "target_modules": "all-linear"},
        {"r": 3, "lora_alpha": 5, "target_modules": ["q_proj", "v_proj"]},
        {"r": 4, "lora_alpha": 8, "use_rslora": True, "target_modules": "all-linear"},
        {
            "r": 4,
            "lora_alpha": 8,
            "rank_pattern": {"layers.0.self_attn.q_proj": 2, "down_proj": 6},
            "alpha_pattern": {"layers.0.self_attn.q_proj": 12},
            "target_modules": ["q_proj", "down_proj"],
        },
    ],
    ids=["all-linear", "two modules", "rslora", "patterns"],
)
def test_what_peft_saves_is_imported(host: Any, tmp_path: Path, options: Any) -> None:
    model = randomised(get_peft_model(copy.deepcopy(host.model), LoraConfig(task_type="CAUSAL_LM", **options)))
    model.save_pretrained(tmp_path)
    with torch.no_grad():
        theirs = model(input_ids=IDS).logits
    torch.testing.assert_close(logits_of(host, import_peft(tmp_path, host)), theirs, atol=1e-4, rtol=1e-4)


def test_an_adapter_of_some_modules_keeps_to_them_in_peft(qwen: Any, tmp_path: Path) -> None:
    """By full names, since `q_proj` alone would mean the other layer's too."""
    whole = tiny_population(qwen, [4]).get(0)
    name = "model.layers.1.self_attn.q_proj"
    adapter = Adapter(4, 2.0, {name: whole.A[name]}, {name: whole.B[name]})
    export_peft(adapter, qwen, tmp_path)
    model = PeftModel.from_pretrained(copy.deepcopy(qwen.model), tmp_path).eval()
    assert sum("lora_A" in key for key, _ in model.named_parameters()) == 1
    with torch.no_grad():
        theirs = model(input_ids=IDS).logits
    torch.testing.assert_close(logits_of(qwen, adapter), theirs, atol=1e-4, rtol=1e-4)


def test_an_export_names_its_base_and_is_as_open_as_other_files(qwen: Any, tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        export_peft(tiny_population(qwen, [4]).get(0), qwen, tmp_path, "/models/mine")
    finally:
        os.umask(before)
    assert json.loads((tmp_path / "adapter_config.json").read_text())["base_model_name_or_path"] == "/models/mine"
    assert {path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {0o640}


def test_an_empty_adapter_is_not_exported(qwen: Any, tmp_path: Path) -> None:
    with pytest.raises(AdapterError, match="rank 0 changes nothing"):
        export_peft(Population.empty(qwen, 1, 4).get(0), qwen, tmp_path)


def edited(folder: Path, **changes: Any) -> None:
    path = folder / "adapter_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def renamed(folder: Path, old: Any, new: Any) -> None:
    path = folder / "adapter_model.safetensors"
    tensors = {key.replace(old, new): tensor for key, tensor in load_file(path).items()}
    path.unlink()
    save_file(tensors, path)


def stored_as(folder: Path, dtype: torch.dtype) -> None:
    path = folder / "adapter_model.safetensors"
    save_file({key: tensor.to(dtype) for key, tensor in load_file(path).items()}, path)


def without_rank(folder: Path) -> None:
    path = folder / "adapter_model.safetensors"
    empty = {key: tensor[:0] if "lora_A" in key else tensor[:, :0] for key, tensor in load_file(path).items()}
    save_file({key: tensor.contiguous() for key, tensor in empty.items()}, path)


def without_weights(folder: Path) -> None:
    (folder / "adapter_model.safetensors").unlink()
    (folder / "adapter_model.bin").write_bytes(b"")


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda f: (f / "adapter_config.json").unlink(), "adapter_config.json: missing; name a folder"),
        (lambda f: (f / "adapter_config.json").write_text("{"), "adapter_config.json: not readable as JSON"),
        (lambda f: (f / "adapter_config.json").write_text("[]"), "peft_type: None is not supported"),
        (lambda f: (f / "adapter_model.safetensors").unlink(), "adapter_model.safetensors: missing; save"),
        (without_weights, "only adapter_model.bin, which is never unpickled"),
        (lambda f: (f / "adapter_model.safetensors").write_bytes(b"no"), "adapter_model.safetensors: not readable"),
        (lambda f: edited(f, peft_type="LOHA"), "peft_type: 'LOHA' is not supported"),
        (lambda f: edited(f, use_dora=True), "use_dora: not supported"),
        (lambda f: edited(f, alora_invocation_tokens=[5, 6]), "adapter_config.json: alora_invocation_tokens: not sup"),
        (lambda f: edited(f, arrow_config={"top_k": 3}), "arrow_config: not supported"),
        (lambda f: edited(f, use_bdlora={"nblocks": 2}), "use_bdlora: not supported"),
        (lambda f: edited(f, use_qalora=True), "use_qalora: not supported"),
        (lambda f: edited(f, kasa_config={"beta": 1e-4}), "kasa_config: not supported"),
        (lambda f: edited(f, r=0), "r: 0 is not a rank from 1 to"),
        (lambda f: edited(f, r=8), "r: 8, but the weights have rank 4"),
        (lambda f: edited(f, lora_alpha="big"), "lora_alpha: 'big' is not a number from 1e-06 to"),
        (lambda f: renamed(f, "q_proj", "c_attn"), "self_attn.c_attn': host 'tiny-qwen3' has no such linear layer"),
        (lambda f: renamed(f, "model.layers.0.self_attn.q_proj", "lm_head"), "'lm_head': the head for words is not ad"),
        (lambda f: renamed(f, "lora_A", "lora_E"), "is no factor of a linear layer"),
        (lambda f: save_file({}, f / "adapter_model.safetensors"), "it holds no tensors"),
        (without_rank, r"lora_A \(0, \d+\) and lora_B \(\d+, 0\) do not make a product"),
        (lambda f: stored_as(f, torch.float8_e4m3fn), "lora_.*: it is float8_e4m3fn; save the adapter as float32"),
        (lambda f: stored_as(f, torch.int64), "lora_.*: it is int64; save the adapter as float32"),
    ],
)
def test_a_damaged_folder_is_one_line_that_says_what(qwen: Any, tmp_path: Path, damage: Any, message: str) -> None:
    export_peft(tiny_population(qwen, [4]).get(0), qwen, tmp_path)
    damage(tmp_path)
    with pytest.raises(AdapterError, match=message) as error:
        import_peft(tmp_path, qwen)
    assert "\n" not in str(error.value) and str(tmp_path) in str(error.value)


@pytest.mark.parametrize("start", ["pissa", "pissa_niter_16", "PiSSA", "olora", "corda", "loftq", "lora_ga"])
def test_a_start_that_changes_the_hosts_weights_is_refused(qwen: Any, tmp_path: Path, start: str) -> None:
    export_peft(tiny_population(qwen, [4]).get(0), qwen, tmp_path)
    edited(tmp_path, init_lora_weights=start)
    with pytest.raises(AdapterError, match=f"adapter_config.json: init_lora_weights: '{start}' is not known") as error:
        import_peft(tmp_path, qwen)
    assert "path_initial_model_for_weight_conversion" in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize("start", ["gaussian", "orthogonal", "eva", "mica", True, False, None])
def test_a_start_that_leaves_the_hosts_weights_alone_is_imported(qwen: Any, tmp_path: Path, start: Any) -> None:
    export_peft(tiny_population(qwen, [4]).get(0), qwen, tmp_path)
    edited(tmp_path, init_lora_weights=start, alora_invocation_tokens=None, arrow_config=None, use_qalora=False)
    assert import_peft(tmp_path, qwen).rank == 4


@pytest.mark.filterwarnings("ignore:PiSSA changes the base weights")  # of PEFT, about its own conversion
def test_pissa_converted_as_the_refusal_says_is_imported(qwen: Any, tmp_path: Path) -> None:
    options: Any = {"r": 4, "lora_alpha": 8, "target_modules": ["q_proj", "v_proj"], "init_lora_weights": "pissa"}
    model: Any = get_peft_model(copy.deepcopy(qwen.model), LoraConfig(task_type="CAUSAL_LM", **options))
    model.peft_config["default"].init_lora_weights = True  # as PEFT's documentation has it
    model.save_pretrained(tmp_path / "start")
    model.peft_config["default"].init_lora_weights = "pissa"
    randomised(model)
    with torch.no_grad():
        theirs = model(input_ids=IDS).logits
    model.save_pretrained(tmp_path / "as-it-is")
    with pytest.raises(AdapterError, match="init_lora_weights: 'pissa'"):
        import_peft(tmp_path / "as-it-is", qwen)
    model.save_pretrained(tmp_path / "plain", path_initial_model_for_weight_conversion=str(tmp_path / "start"))
    torch.testing.assert_close(logits_of(qwen, import_peft(tmp_path / "plain", qwen)), theirs, atol=1e-4, rtol=1e-4)


def test_an_adapter_of_another_host_names_the_module_and_both_shapes(qwen: Any, tmp_path: Path) -> None:
    other = tiny_host("qwen3", intermediate_size=24)
    export_peft(tiny_population(other, [4]).get(0), other, tmp_path)
    with pytest.raises(
        AdapterError, match=r"mlp\.(gate|up)_proj': it is 24 x 32, .* is 56 x 32|down_proj': it is 32 x 24"
    ):
        import_peft(tmp_path, qwen)
