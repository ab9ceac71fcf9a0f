"""Stage `compare`: accuracies with intervals and the declared comparisons, over the seeds that every condition has."""

from collections.abc import Sequence

from tasks._stage import Made, StageRequest, StageResult, Suite, Work, stage_request, stage_task


def request(suite: Suite, *, evaluations: Sequence[StageResult]) -> StageRequest:
    """Compare the evaluations of complete seeds."""
    evaluation = suite.config.evaluation.model_dump(
        mode="json",
        # What decides no number here.
        exclude={
            "routings": True,
            "strengths": True,
            "frontier_items": True,
            "comparisons": {"__all__": {"regime"}},
        },
    )
    inputs = {f"{result.condition}.s{result.seed}": result for result in evaluations}
    return stage_request(
        suite, "compare", "suite", 0, entry=__name__, config=evaluation, inputs=inputs, uses_host=False
    )


def make(work: Work) -> Made:
    """Leaves the tables `comparisons` and `accuracies`. StageError where conditions were not measured alike."""
    from evolora_core.evaluation.comparisons import write_comparisons

    folders = {}
    for role, folder in work.inputs.items():
        condition, _, seed = role.rpartition(".s")
        folders[condition, int(seed)] = folder
    tables = write_comparisons(folders, work.config["comparisons"], work.folder, work.config["bootstrap"])
    verdicts = {f"{row['a']} vs {row['b']} on {row['split']}": row["verdict"] for row in tables["comparisons"]}
    return Made(summary={"verdicts": verdicts})


compare = stage_task("compare", request, make)
