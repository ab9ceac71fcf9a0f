"""Train a host of our own from nothing: `evolora host pretrain nano`, or the deployment `pretrain-host`."""

from typing import Any

from prefect import flow

from evolora_core.engine.home import home_path
from tasks.pretrain_host import pretrain_host


@flow(name="pretrain-host")
def pretrain_host_flow(name: str = "nano", folder: str = "") -> dict[str, Any]:
    """Train the described host `name`; into EVOLORA_HOME/hosts/NAME-pretrained unless a folder is named.

    The shipped weights are not touched: pass evolora_core/language/hosts/nano to renew them.
    """
    return pretrain_host(name, folder or str(home_path() / "hosts" / f"{name}-pretrained"))
