"""Control: organelles answer, are paid and charged, and learn nothing."""

from evolora_core.searches.adapters.ecology.learning.asking import samples
from evolora_core.searches.adapters.ecology.learning.rehearsal import cool, cooldown, rehearse
from evolora_core.searches.adapters.ecology.run import Rule

RULE = Rule("control", act=samples, learn=rehearse, cooldown=cooldown, cool=cool)
