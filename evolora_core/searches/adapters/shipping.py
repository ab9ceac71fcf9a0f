"""What lives at the end of a run, as folders that others load: every adapter in PEFT's format with a router, or one
adapter merged into the host.
"""

import shutil
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evolora_core.engine.artifacts import write_json
from evolora_core.errors import ConfigError
from evolora_core.lora.population.peft_io import export_peft
from evolora_core.searches.adapters.evolved import BARE, LEARNED, Evolved
from evolora_core.searches.adapters.routing.learned import write_classifier

if TYPE_CHECKING:
    from evolora_core.language.hosts.host import Host
    from evolora_core.lora.population.adapter import Adapter

ROUTER, CLASSIFIER, CARD = "router.json", "router.safetensors", "README.md"
VLLM_RANKS = (8, 16, 32, 64, 128, 256, 512)  # what vLLM takes as the highest rank


def ship_all(evolved: Evolved, base: str, out: Path) -> int:
    """Write each organelle that changes anything as `organelle-N`, a PEFT folder; the router, and a card. Returns how
    many were written. `base` is what others load the host by.

    router.json  by family who answers (a number, or `host`), and who answers prompts of any other family; the router
                 `learned` tells the family of a prompt by router.safetensors: the whitened mean of its tokens'
                 embeddings is nearest to that of a family, or farther than `limit` from all
    """
    population, shots = evolved.run.adapters, evolved.run.shots
    if shots and evolved.routes is not None and set(evolved.routes.table.values()) & set(shots.ways):
        raise ConfigError(
            f"{evolved.name}: shows examples before a prompt, which a folder of adapters cannot; name one organelle"
        )
    out.mkdir(parents=True, exist_ok=True)
    written = []
    for number in evolved.organelles:
        adapter = population.get(evolved.run.organelles[number])
        if adapter.rank and adapter.A:
            export_peft(adapter, evolved.host, out / f"organelle-{number}", base)
            written.append(number)
    names = {slot: number for number, slot in evolved.run.organelles.items()}
    router: dict[str, Any] = {"routing": "none"}
    if evolved.routes is not None:
        table = {bucket: names.get(slot, BARE) for bucket, slot in evolved.routes.table.items()}
        router = {"routing": evolved.routes.routing, "table": table, "other": BARE}
    write_json(out / ROUTER, router)
    if router["routing"] == LEARNED and evolved.run.classifier is not None:
        write_classifier(out / CLASSIFIER, evolved.run.classifier)
        shutil.copymode(out / ROUTER, out / CLASSIFIER)  # safetensors writes for its owner alone
    (out / CARD).write_text(_card(evolved, base, written, router), encoding="utf-8")
    return len(written)


def ship_merged(adapter: "Adapter", host: "Host", name: str, out: Path) -> None:
    """Write the host with an adapter's ΔW added to its weights, and the tokenizer. The host at hand is changed."""
    from tempfile import TemporaryDirectory

    from peft import PeftModel

    from evolora_core.language.hosts.progress import bars_on_terminals_only

    with TemporaryDirectory(prefix="evolora-merged-") as work, bars_on_terminals_only(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="`is_gradient_checkpointing` is deprecated")  # PEFT 0.21 asks for it
        export_peft(adapter, host, Path(work))
        model: Any = PeftModel.from_pretrained(host.model, work).merge_and_unload()
        model.save_pretrained(out, safe_serialization=True)
    host.tokenizer.save_pretrained(out)
    for weights in out.glob("*.safetensors"):
        shutil.copymode(out / "config.json", weights)  # safetensors writes for its owner alone
    text = f"# {host.name} with {name}\n\nThe adapter is added to the weights. {_prompts(host)}\n"
    (out / CARD).write_text(text, encoding="utf-8")


def _card(evolved: Evolved, base: str, written: list[int], router: dict[str, Any]) -> str:
    rows = "".join(f"| `{bucket or 'every prompt'}` | {who} |\n" for bucket, who in router.get("table", {}).items())
    table = f"| family | who answers |\n| --- | --- |\n{rows}| any other | {router['other']} |\n" if rows else ""
    return (
        f"---\nlibrary_name: peft\nbase_model: {evolved.host.name}\n---\n\n"
        f"# Adapters of {evolved.name}\n\n"
        f"{len(written)} LoRA adapters of the host `{evolved.host.name}` "
        f"(weights {evolved.host.identity['weights_sha256'][:16]}), each in a folder that PEFT loads. "
        f"{_prompts(evolved.host)}\n\n{table}{_loading(evolved, base, written)}"
    )


def _loading(evolved: Evolved, base: str, written: list[int]) -> str:
    """How others load the adapters. HOST is left to the reader: a card may be read on another machine."""
    if not written:
        return ""
    ranks = [evolved.run.adapters.get(evolved.run.organelles[number]).rank for number in written]
    most = next((rank for rank in VLLM_RANKS if rank >= max(ranks)), max(ranks))
    modules = " ".join(f"organelle-{number}=organelle-{number}" for number in written)
    return (
        f"\nHOST is `{base}`, or another copy of these weights.\n\n"
        f"```python\n"
        f"from peft import PeftModel\n"
        f"from transformers import AutoModelForCausalLM\n\n"
        f'model = PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(HOST), "organelle-{written[0]}")\n'
        f"```\n\n"
        f"```sh\n"
        f"vllm serve HOST --enable-lora --max-lora-rank {most} --lora-modules {modules}\n"
        f"```\n"
    )


def _prompts(host: "Host") -> str:
    """How a prompt has to look."""
    if host.template.tokenizer.chat_template:
        return "Prompts are in the chat template of the tokenizer, as one message of the user."
    return f"Prompts have the form {host.template.plain.prompt!r}, and answers {host.template.plain.answer!r}."
