"""The names of all families, and the module of each. Whoever adds a family enters it here.

Not part of a stage's identity, so that a new family leaves what is computed with the others as it is: a stage names
the modules that it uses (`registry.modules_of`).
"""

MODULES = {
    "math": "evolora_core.families.math",
    "math.sequence": "evolora_core.families.math_sequence",
    "math.multi_step": "evolora_core.families.math_multi_step",
    "string.sort": "evolora_core.families.string_sort",
    "string.distinct": "evolora_core.families.string_distinct",
    "string.repeats": "evolora_core.families.string_repeats",
    "string.reverse": "evolora_core.families.string_reverse",
    "word.count": "evolora_core.families.word_count",
    "word.tokens": "evolora_core.families.word_tokens",
    "json_repair": "evolora_core.families.json_repair",
    "logic.bool": "evolora_core.families.logic_bool",
    "code.format": "evolora_core.families.code_format",
    "regex.synthesis": "evolora_core.families.regex_synthesis",
    "regex.recognition": "evolora_core.families.regex_recognition",
    "regex.explanation": "evolora_core.families.regex_explanation",
    "regex.debugging": "evolora_core.families.regex_debugging",
    "regex.refactoring": "evolora_core.families.regex_refactoring",
    "regex.mutation_effect": "evolora_core.families.regex_mutation_effect",
}
ALIASES = {"regex": "regex.synthesis"}
