"""How prompts and answers become token ids: the model's own chat template where it has one (and its host file
does not set that aside), else a plain one."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, takewhile
from typing import TYPE_CHECKING, Any, cast

from evolora_core.errors import HostError
from evolora_core.foreign.text import error_line, one_line
from evolora_core.language.hosts.description import TemplateDescription
from evolora_core.language.hosts.identity import sha256_of_text

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


DAY = "26 Jul 2024"  # what Llama 3.1's template prints where it is told no date
# The empty expression behind it keeps the line break that a template may begin with.
_SAME_DAY = "{%- macro strftime_now(format) -%}" + DAY + "{%- endmacro %}{{- '' }}"

_PLACE = re.compile("(\ue000[0-9]+\ue001)")  # where a text of the user goes, in characters that nobody writes

Example = tuple[str, str]  # a prompt and an answer to it, shown before another prompt


@dataclass(frozen=True)
class PromptTemplate:
    """Text forms around one prompt and its answer."""

    tokenizer: "PreTrainedTokenizerBase"
    plain: TemplateDescription
    end: int  # the id that ends an answer, which training targets carry and decoding stops at

    @property
    def sha256(self) -> str:
        """Hash of the text that decides: the chat template, or both plain forms."""
        return sha256_of_text(_undated(self.tokenizer) or f"{self.plain.prompt}\x00{self.plain.answer}")

    @property
    def ending(self) -> str:
        """What a next question begins with in the plain form, which a model without a chat template may go on with
        after its answer; "" where nothing stands before a prompt.
        """
        before = self.plain.own_paragraph.partition("{prompt}")[0].rstrip()
        return f"\n{before}" if before and not self.tokenizer.chat_template else ""

    def encode_prompts(
        self, prompts: Sequence[str], examples: Sequence[Sequence[Example]] | None = None
    ) -> list[list[int]]:
        """Ids up to where the answer starts; `examples[i]` stand before prompt i. Thinking is off where the chat
        template knows the switch.
        """
        if not prompts:
            return []
        shown = examples if examples is not None else [()] * len(prompts)
        asked = list(zip(prompts, shown, strict=True))
        if self.tokenizer.chat_template:
            chats = [[*_turns(before), {"role": "user", "content": prompt}] for prompt, before in asked]
            ids: Any = _rendered(self.tokenizer, chats, add_generation_prompt=True, enable_thinking=False)
        else:
            rows = self.tokenizer([self._plain(prompt, before) for prompt, before in asked])["input_ids"]
            # Some tokenizers close every text (`add_eos_token`): behind that, no answer would come.
            ids = [row[:-1] if row[-1:] == [self.tokenizer.eos_token_id] else row for row in rows]
        marks = [str(token) for token in self.tokenizer.added_tokens_decoder.values() if token.special]
        for place, (prompt, before) in enumerate(asked):
            texts = [*chain.from_iterable(before), prompt]
            if any(mark in text for text in texts for mark in marks):
                ids[place] = self._as_text(texts)
        return cast(list[list[int]], ids)

    def _as_text(self, texts: Sequence[str]) -> list[int]:
        """Ids of a prompt, the last of `texts`, behind its examples, the others, in which what looks like a special
        token stays text: nobody ends a turn from within one. What is asked is encoded apart from the form around it.
        """
        names = [f"\ue000{number}\ue001" for number in range(len(texts))]
        before = list(zip(names[:-1:2], names[1:-1:2], strict=True))
        ids: list[int] = []
        if self.tokenizer.chat_template:
            chat = [*_turns(before), {"role": "user", "content": names[-1]}]
            form = _rendered(self.tokenizer, chat, tokenize=False, add_generation_prompt=True, enable_thinking=False)
        else:
            form = self._plain(names[-1], before)
            bare, end = self.tokenizer("")["input_ids"], self.tokenizer.eos_token_id
            # OPT begins a text with the token that elsewhere ends it.
            closes = bare[-1:] == [end] and (len(bare) > 1 or end != self.tokenizer.bos_token_id)
            ids = list(bare[:-1] if closes else bare)
        said = dict(zip(names, texts, strict=True))
        for piece in filter(None, _PLACE.split(form)):
            text, own = said.get(piece, piece), piece in said
            ids += self.tokenizer(text, add_special_tokens=False, split_special_tokens=own)["input_ids"]
        return ids

    def _plain(self, prompt: str, examples: Sequence[Example]) -> str:
        """The plain form of a prompt, with examples in the place of those that the form has for every prompt."""
        if not examples:
            return self.plain.prompt.replace("{prompt}", prompt)
        form = self.plain.own_paragraph
        solved = [
            form.replace("{prompt}", asked) + self.plain.answer.replace("{answer}", answer)
            for asked, answer in examples
        ]
        return "\n\n".join([*solved, form.replace("{prompt}", prompt)])

    def encode_answers(self, answers: list[str]) -> list[list[int]]:
        """Ids of the answers as they stand behind a prompt, the ending id appended. Text that looks like a special
        token stays text.
        """
        if not answers:
            return []
        before, gap = self._around()
        answers = [gap.replace("{answer}", answer) for answer in answers]
        alone = self._ids(answers)
        if not before:
            return [[*row, self.end] for row in alone]
        # Llama's tokenizer, for one, puts a blank before what begins a text, and an answer begins none.
        (first,) = self._ids([before])
        behind = self._ids([before + answer for answer in answers])
        rows = [
            row[len(first) :] if row[: len(first)] == first and len(row) > len(first) else other
            for row, other in zip(behind, alone, strict=True)
        ]
        return [[*row, self.end] for row in rows]

    def _around(self) -> tuple[str, str]:
        """The last character before an answer, "" where a special token stands there, and the form of the answer."""
        if not self.tokenizer.chat_template:
            return self.plain.prompt[-1:], self.plain.answer
        name = "\ue0000\ue001"
        chat = [{"role": "user", "content": "1"}, {"role": "assistant", "content": name}]
        form = _rendered(self.tokenizer, chat[:1], tokenize=False, add_generation_prompt=True, enable_thinking=False)
        whole = _rendered(self.tokenizer, chat, tokenize=False)
        gap = whole[len(form) :].partition(name)[0] if whole.startswith(form) and name in whole else ""
        marks = [str(token) for token in self.tokenizer.added_tokens_decoder.values() if token.special]
        before = "" if any(form.endswith(mark) for mark in marks) else form[-1:]
        return before, f"{gap if gap.isspace() else ''}{{answer}}"

    def _ids(self, texts: list[str]) -> list[list[int]]:
        """Ids of texts in which nothing is special."""
        ids = self.tokenizer(texts, add_special_tokens=False, split_special_tokens=True)["input_ids"]
        return cast(list[list[int]], ids)


def _turns(examples: Sequence[Example]) -> list[dict[str, str]]:
    """Examples as turns of a chat."""
    return [
        {"role": role, "content": text}
        for example in examples
        for role, text in zip(("user", "assistant"), example, strict=True)
    ]


def _undated(tokenizer: "PreTrainedTokenizerBase") -> Any:
    """The chat template. One that prints today's date (Llama 3.1's and SmolLM3's do) prints that of `DAY`: the prompts
    of a run may not depend on when it ran.
    """
    template = tokenizer.chat_template
    return f"{_SAME_DAY}{template}" if isinstance(template, str) and "strftime_now" in template else template


def _rendered(tokenizer: "PreTrainedTokenizerBase", chats: Any, **options: Any) -> Any:
    """Token ids by the chat template. HostError where the template fails, whatever it raises: it is a program."""
    try:
        return tokenizer.apply_chat_template(chats, chat_template=_undated(tokenizer), return_dict=False, **options)
    except Exception as error:
        reason = error_line(error)
        raise HostError(f"host: its chat template cannot render a prompt ({reason}); mend the template") from error


def settle_chat_template(name: str, tokenizer: "PreTrainedTokenizerBase") -> None:
    """Where a tokenizer has several named chat templates, leave it `default` alone, which transformers renders by.
    HostError where there is none.
    """
    named: Any = tokenizer.chat_template
    if not isinstance(named, dict):
        return
    if named and "default" not in named:
        names = one_line(", ".join(map(str, named)), 100)
        raise HostError(
            f"host {name}: tokenizer_config.json: chat_template: has {names} and no default; call one of them default"
        )
    tokenizer.chat_template = named.get("default")


def ending_id(tokenizer: "PreTrainedTokenizerBase", eos_ids: tuple[int, ...]) -> int:
    """The id that ends an answer: the one of `eos_ids` that the chat template puts after an assistant's text, else a
    special token that it puts there, else EOS.

    Gemma's <end_of_turn>, for one, is not its EOS, and a base model that is given a template may name no end of a turn.
    """
    if tokenizer.chat_template:
        chat = [{"role": "user", "content": "1"}, {"role": "assistant", "content": "2"}]
        whole = _rendered(tokenizer, chat)
        asked = _rendered(tokenizer, chat[:1], add_generation_prompt=True, enable_thinking=False)
        begins = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(whole, asked, strict=False)))
        # Phi-3's template puts EOS behind the token that ends a turn: the first one ends the answer.
        closing = [token for token in whole[begins:] if token in eos_ids]
        special = {token for token, own in tokenizer.added_tokens_decoder.items() if own.special}
        if closing := closing or [token for token in whole[begins:] if token in special]:
            return int(closing[0])
    return tokenizer.eos_token_id if tokenizer.eos_token_id is not None else eos_ids[0]
