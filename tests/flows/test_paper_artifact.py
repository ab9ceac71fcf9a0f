"""The artifact of the paper table: accuracy first, in percent with three digits at most; then what it took."""

from flows._artifacts import table_rows


def row(**changes: object) -> dict[str, object]:
    accuracy = {f"{split}_{what}": 0.5 for split in ("holdout_id", "holdout_ood") for what in ("acc", "lo", "hi")}
    retention = {"retention_acc": 1.0, "retention_lo": 0.87125, "retention_hi": 1.0}
    flops = {"train_flops": 1.23456e15, "total_flops": 2e15}
    return (
        {"suite": "s", "condition": "ecology", "seeds": 5, "generations": 9.0} | accuracy | retention | flops | changes
    )


def test_accuracy_comes_first_with_three_digits() -> None:
    assert table_rows([row(holdout_id_acc=0.82791, holdout_id_lo=0.0, holdout_id_hi=0.98449)]) == [
        {
            "condition": "ecology",
            "seeds": "5",
            "in distribution %": "82.8 [0, 98.4]",
            "out of distribution %": "50 [50, 50]",
            "retention %": "100 [87.1, 100]",
            "training FLOPs": "1.23e+15",
            "total FLOPs": "2e+15",
        }
    ]


def test_what_a_condition_does_not_have_is_a_dash() -> None:
    (shown,) = table_rows([row(holdout_ood_acc=None, retention_lo=None, retention_hi=None, train_flops=None)])
    assert (shown["out of distribution %"], shown["retention %"], shown["training FLOPs"]) == ("–", "100", "–")
