"""The names of all families, and the module of each. Whoever adds a family enters it here.

Not part of a stage's identity, so that a new family leaves what is computed with the others as it is: a stage names
the modules that it uses (`registry.modules_of`).
"""

MODULES = {
    "math": "evolora_core.language.families.math",
    "math.sequence": "evolora_core.language.families.math_sequence",
    "math.multi_step": "evolora_core.language.families.math_multi_step",
    "string.sort": "evolora_core.language.families.string_sort",
    "string.distinct": "evolora_core.language.families.string_distinct",
    "string.repeats": "evolora_core.language.families.string_repeats",
    "string.reverse": "evolora_core.language.families.string_reverse",
    "word.count": "evolora_core.language.families.word_count",
    "word.tokens": "evolora_core.language.families.word_tokens",
    "json_repair": "evolora_core.language.families.json_repair",
    "logic.bool": "evolora_core.language.families.logic_bool",
    "code.format": "evolora_core.language.families.code_format",
    "regex.synthesis": "evolora_core.language.families.regex_synthesis",
    "regex.recognition": "evolora_core.language.families.regex_recognition",
    "regex.explanation": "evolora_core.language.families.regex_explanation",
    "regex.debugging": "evolora_core.language.families.regex_debugging",
    "regex.refactoring": "evolora_core.language.families.regex_refactoring",
    "regex.mutation_effect": "evolora_core.language.families.regex_mutation_effect",
    "number.words": "evolora_core.language.families.number_words",
}
ALIASES = {"regex": "regex.synthesis"}
