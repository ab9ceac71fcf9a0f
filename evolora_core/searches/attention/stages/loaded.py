"""What the stages of this search load by a computed name, or read as text: it counts in their identities like code that
they import.
"""

LOADED = (
    "evolora_core.searches.attention.judging.child",  # in sandboxes
    "evolora_core.sandbox.nursery",  # which starts them
    "evolora_core.searches.attention.known.programs.mha",  # the baseline
    "evolora_core.searches.attention.frameworks.templates.coefficient_dynamics",
    "evolora_core.searches.attention.frameworks.templates.matrix_mixer",
    "evolora_core.searches.attention.frameworks.templates.test_time_regression",
)
