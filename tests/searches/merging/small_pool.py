"""Parents, domains and sizes of the splits that tests of merges share."""

from evolora_core.searches.merging.settings import DataSettings, Domain

PARENTS = ("code", "math", "structured")
DOMAINS = {
    "code": Domain(families=["code.format"]),
    "math": Domain(families=["math"], weight=0.5),
    "structured": Domain(families=["json_repair"]),
}
DATA = DataSettings(train=24, search=12, selection=8, test=8)
