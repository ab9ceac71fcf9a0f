"""Train a host of our own from nothing: `evolora host pretrain nano`, or the deployment `pretrain-host`."""

from typing import Any

from prefect import flow

from evolora_core.language.hosts.catalog import training_folder
from tasks.pretrain_host import pretrain_host


@flow(name="pretrain-host")
def pretrain_host_flow(name: str = "nano", folder: str = "") -> dict[str, Any]:
    """Train the described host `name`; unless a folder is named, into EVOLORA_HOME/hosts/NAME, where suites find it.

    Shipped weights are not touched: theirs go into EVOLORA_HOME/hosts/NAME-pretrained. To renew them, pass
    evolora_core/language/hosts/nano.
    """
    return pretrain_host(name, folder or str(training_folder(name)))
