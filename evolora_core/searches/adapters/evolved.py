"""A finished run that answers: who is asked, what is said, and what it cost.

The router `learned` goes by the prompt alone, and a prompt of a user states no family. Where a run has only routes by
family, the classifier is fitted now to the run's selection items: the table is the same, as both have a row a family.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from evolora_core.engine import rng
from evolora_core.errors import ConfigError
from evolora_core.language.families.base import Item
from evolora_core.language.families.names import ALIASES
from evolora_core.language.flops import FlopModel
from evolora_core.language.hosts.template import Example
from evolora_core.lora.answering.stopping import endings, stop_at, until
from evolora_core.lora.population.generate import generate
from evolora_core.lora.population.slots import HOST
from evolora_core.searches.adapters.finished import TrainedRun, check_host, datasets_of, find, load_own_host, load_run
from evolora_core.searches.adapters.routing.candidates import learn_router
from evolora_core.searches.adapters.routing.routes import Routes, routings_in
from evolora_core.searches.adapters.routing.sending import Sent, all_to, send
from evolora_core.searches.adapters.routing.shots import fitting

if TYPE_CHECKING:
    from torch import Tensor

    from evolora_core.language.decoding import DecodingConfig
    from evolora_core.language.hosts.host import Host

LEARNED, SINGLE, FAMILY = "learned", "single", "family"
BARE = "host"


@dataclass(frozen=True)
class Reply:
    """An answer. who: the organelle's number, or `host`; family: what the router took the prompt for, "" if it did not
    ask; flops: of the answer, and of the router.
    """

    prompt: str
    answer: str
    who: int | str
    family: str
    prompt_tokens: int
    answer_tokens: int
    finished: bool
    flops: int


@dataclass(frozen=True)
class Evolved:
    """A run with its host, and how it is routed. routes: None where one organelle answers everything."""

    name: str
    host: "Host"
    run: TrainedRun
    decoding: "DecodingConfig"
    routes: Routes | None
    organelle: int | None = None

    @property
    def organelles(self) -> list[int]:
        """The numbers of those that live."""
        return sorted(self.run.organelles)

    def asking(self, organelle: int | None) -> "Evolved":
        """The same, with one organelle that answers everything. ConfigError where it does not live."""
        if organelle is not None and organelle not in self.run.organelles:
            living = ", ".join(map(str, self.organelles))
            mend = f"choose from {living}" if living else "no organelle is, so name none"
            raise ConfigError(f"organelle {organelle}: not alive at the end of {self.name}; {mend}")
        return replace(self, organelle=organelle)

    def bare(self) -> "Evolved":
        """The same, where the host answers everything."""
        return replace(self, routes=Routes(SINGLE, {}), organelle=None)

    def first_too_long(self, prompts: Sequence[str], max_new_tokens: int | None = None) -> tuple[int, str] | None:
        """The place of the first prompt that, with the longest answer, does not fit the host, and why; None: all fit.
        Examples before a prompt are left out where it is long, and so do not count.
        """
        most, room = max_new_tokens or self.decoding.max_new_tokens, self.host.max_context
        for place, ids in enumerate(self.host.encode_prompts(list(prompts))):
            if len(ids) + most > room:
                return place, (
                    f"its {len(ids)} tokens and an answer of {most} do not fit the host's {room}; shorten it, or ask "
                    "for less"
                )
        return None

    def answer(
        self,
        prompts: Sequence[str],
        *,
        families: Sequence[str] | None = None,
        max_new_tokens: int | None = None,
        temperature: float = 0.0,
        seed: int = 0,
        stop_strings: Sequence[str] = (),
        told: Callable[[str], None] | None = None,
        first: int = 1,
    ) -> list[Reply]:
        """A reply to each prompt, in order. An answer also ends before the first of `stop_strings`.

        `families` are what the router `family` goes by. With a temperature, answers are samples of the stream (seed,
        number of the prompt), which counts from `first`. `told` gets the text of a single prompt's answer piece by
        piece. ConfigError for a prompt that is empty or does not fit the host; it names the number.
        """
        decoding, host = self.decoding, self.host
        if isinstance(prompts, str):
            raise ConfigError("prompts: give a list of texts; a single one as [text]")
        for number, prompt in enumerate(prompts, start=first):
            if not prompt.strip():
                raise ConfigError(f"prompt {number}: is empty; give it as text")
        most = max_new_tokens or decoding.max_new_tokens
        if unfit := self.first_too_long(prompts, most):
            raise ConfigError(f"prompt {first + unfit[0]}: {unfit[1]}")
        sent = self._sent(prompts, families)
        slots, routing = sent.candidates, sent.flops
        examples = [list[Example]() for _ in prompts]
        if self.run.shots:
            items = [Item(prompt, None, "", "", "") for prompt in prompts]
            own, examples, choosing = self.run.shots.before(host, items, slots.tolist(), sent.told)
            examples = fitting(host, prompts, examples, most)
            slots, routing = np.array(own), routing + np.array(choosing)
        asked = host.encode_prompts(list(prompts), examples)
        strings = endings(host, [*decoding.stop_strings, *stop_strings])
        stop = stop_at(host, strings)
        telling = _Telling(host, strings, stop, told) if told else None
        answers = generate(
            host,
            self.run.population,
            asked,
            slots,
            max_new_tokens=most,
            temperatures=temperature,
            keys=rng.row_keys(rng.key(seed, 0, 0, "ask"), first - 1 + len(asked))[first - 1 :] if temperature else None,
            batch_rows=decoding.batch_rows,
            stop=telling or stop,
        )
        if telling is not None:
            telling.say(until(host.decode(answers[0].tokens), strings))
        ranks = 0 if self.run.population is None else self.run.population.ranks_of(slots)
        lengths = np.array([len(ids) for ids in asked])
        flops = FlopModel.from_model(host.model).generate_flops(lengths, [own.new_tokens for own in answers], ranks)
        numbers = {slot: organelle for organelle, slot in self.run.organelles.items()}
        return [
            Reply(
                prompt=prompt,
                answer=until(host.decode(own.tokens), strings),
                who=numbers[int(slot)] if slot != HOST else BARE,
                family=family,
                prompt_tokens=own.prompt_tokens,
                answer_tokens=own.new_tokens,
                finished=own.finished,
                flops=int(cost + extra),
            )
            for prompt, own, slot, family, cost, extra in zip(
                prompts, answers, slots, sent.told, flops, routing, strict=True
            )
        ]

    def _sent(self, prompts: Sequence[str], families: Sequence[str] | None) -> Sent:
        """Where the router sends the prompts, or all of them to the one organelle that answers."""
        items = [Item(prompt, None, "", "", str(number)) for number, prompt in enumerate(prompts)]
        if self.organelle is not None:
            return all_to(self.run.organelles[self.organelle], items)
        if self.routes is None:
            raise ConfigError(f"{self.name}: its routes go by more than the prompt; name an organelle (--organelle)")
        if self.routes.routing == FAMILY:
            if families is None:
                raise ConfigError("the router `family` goes by the family of each prompt; state it, or take `learned`")
            if isinstance(families, str) or len(families) != len(prompts):
                raise ConfigError(f"families: give a list with one for each of the {len(prompts)} prompts")
            named = [ALIASES.get(family, family) for family in families]
            items = [replace(item, family=family) for item, family in zip(items, named, strict=True)]
        return send(self.host, items, self.routes, self.run.classifier)


class _Telling:
    """Hands the text so far on, each time a token has come, and stops where the answer stops."""

    def __init__(
        self,
        host: "Host",
        strings: Sequence[str],
        stop: "Callable[[Tensor], Tensor] | None",
        told: Callable[[str], None],
    ) -> None:
        self._host, self._strings, self._stop, self._told = host, strings, stop, told
        self._said = 0

    def __call__(self, tokens: "Tensor") -> "Tensor":
        text = until(self._host.decode(tokens[0].tolist()), self._strings)
        self.say(text[: len(text) - _unsure(text, self._strings)])
        return self._stop(tokens) if self._stop else tokens.new_zeros((len(tokens),)).bool()

    def say(self, text: str) -> None:
        """Hand on what is new in the text so far."""
        if len(text) > self._said:
            self._told(text[self._said :])
            self._said = len(text)


def _unsure(text: str, strings: Sequence[str]) -> int:
    """Characters at the end of a text that may not be part of it: half of a character, or the beginning of a stop
    string.
    """
    sure = text.rstrip("\ufffd")
    begun = [n for string in strings for n in range(1, len(string)) if sure.endswith(string[:n])]
    return len(text) - len(sure) + max(begun, default=0)


def only_host(routes: Sequence[Routes]) -> str:
    """A line about the routers that send every prompt to the bare host; "" where none does."""
    names = ", ".join(own.routing for own in routes if not own.slots)
    return names and (
        f"routing {names}: the bare host answers every prompt, as no adapter was ahead of it on the selection items"
    )


def open_run(
    home: Path, name: str, *, routing: str = "", organelle: int | None = None, families: bool = False
) -> Evolved:
    """A finished run of the adapter search. `routing` "": by the prompt where the run has specialists, else `single`.
    `families`: whoever asks states the family of each prompt, which the router `family` goes by.

    ConfigError or HostError, in one line, where there is no such run, router, organelle or host.
    """
    from evolora_core.language.decoding import DecodingConfig
    from evolora_core.language.tasks.own import enter_beside

    if routing and organelle is not None:
        raise ConfigError(f"organelle {organelle}: answers everything, so that no router decides; take one of them")
    entry, suite = find(home, name)
    enter_beside(datasets_of(home, entry))
    word = suite["host"]
    check_host(home, entry, word)
    loaded = load_own_host(home, entry, word, suite.get("device", "cpu"))
    folder = home / entry.folder
    own = routings_in(folder)
    # The others go by what a prompt does not say: its family, or its depth too.
    answering = {LEARNED, SINGLE, *([FAMILY] if families else [])}
    known = sorted(answering & {*own, *([LEARNED] if FAMILY in own else [])})
    routing = routing or next((word for word in (LEARNED, SINGLE) if word in known), "")
    if routing and routing not in known:
        why = "goes by more than the prompt" if routing in own else f"{name} has no such routes"
        raise ConfigError(f"routing {routing}: {why}; choose from {', '.join([*known, 'an organelle'])}")
    derived = routing == LEARNED and LEARNED not in own
    run = load_run(home, entry, loaded, FAMILY if derived else routing or FAMILY)
    routes = run.routes
    if derived and routes is not None:
        classifier = learn_router(loaded, selection_of(home, entry))
        run, routes = replace(run, classifier=classifier), replace(routes, routing=LEARNED)
    decoding: Any = DecodingConfig.model_validate(suite.get("decoding", {}))
    return Evolved(entry.run_id, loaded, run, decoding, routes).asking(organelle)


def selection_of(home: Path, entry: Any) -> list[Item]:
    """The items on which the routes of a run were chosen."""
    from evolora_core.language.datasets import read_items

    return read_items(datasets_of(home, entry) / "selection.jsonl")
