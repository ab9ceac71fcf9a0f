"""The character tokenizer of our own hosts: printable ASCII by character, everything else by its UTF-8 bytes.

One id a character makes prompts of digits and letters regular, and any text survives the round trip. It is an ordinary
`tokenizers` model (BPE without merges, byte fallback): `AutoTokenizer.from_pretrained(folder)` needs no code of ours.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

PAD, END, USER, ASSISTANT = "<|pad|>", "<|end|>", "<|user|>", "<|assistant|>"
VOCABULARY: tuple[str, ...] = (
    *(PAD, END, USER, ASSISTANT, "\n"),
    *(chr(code) for code in range(32, 127)),
    *(f"<0x{byte:02X}>" for byte in range(256)),
)
# No system role and no line breaks: a system message is simply more text of the user.
CHAT_TEMPLATE = (
    "{%- for message in messages -%}"
    "{%- if message['role'] == 'assistant' -%}{{ '" + ASSISTANT + "' + message['content'] + '" + END + "' }}"
    "{%- else -%}{{ '" + USER + "' + message['content'] }}{%- endif -%}"
    "{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{ '" + ASSISTANT + "' }}{%- endif -%}"
)


def build_tokenizer(context: int) -> "PreTrainedTokenizerFast":
    """A tokenizer of 356 ids with the chat template `<|user|>prompt<|assistant|>answer<|end|>`; `context` in tokens."""
    from tokenizers import Tokenizer, decoders, models
    from transformers import PreTrainedTokenizerFast

    backend = Tokenizer(
        models.BPE(vocab={token: index for index, token in enumerate(VOCABULARY)}, merges=[], byte_fallback=True)
    )
    backend.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Fuse()])
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=backend,
        pad_token=PAD,
        eos_token=END,
        additional_special_tokens=[USER, ASSISTANT],
        clean_up_tokenization_spaces=False,
        model_max_length=context,
        padding_side="left",
    )
    tokenizer.chat_template = CHAT_TEMPLATE
    return tokenizer
