"""The content of the demo's report."""

from typing import TYPE_CHECKING

from shardgraph.cli.report.content import GONE, REBUILT, Bar, Content, Picture

if TYPE_CHECKING:
    from shardgraph.cli.demo.digits import Digit
    from shardgraph.cli.demo.story import Story

SHOWN = 7  # images of the forgotten source


def report_of(story: "Story", rows: "list[Digit]") -> Content:
    """The graph, the accuracy, the cost, both digests, the forgotten images and the certificates."""
    before, after = story.learned, story.forgot
    sample, source = story.steps
    return Content(
        title="A model that forgot and a model that never saw",
        lead=f"A pretrained network embedded {len(rows)} handwritten digits from {len(story.graph.shards)} sources, "
        f"and a model was trained on them. Then {sample.what} and {source.what} were forgotten. A second workspace "
        "never saw them. Both models have the same bytes.",
        figures=(
            ("accuracy before", f"{before['accuracy']:.1%}"),
            ("accuracy after", f"{after['accuracy']:.1%}"),
            ("of a full training, to forget one image", f"{sample.plan['share_of_full_retraining']:.0%}"),
            ("the two models", "equal" if story.equal else "NOT EQUAL"),
        ),
        graph=story.graph,
        touched=dict.fromkeys(source.vanished, GONE) | dict.fromkeys(sample.groups, REBUILT),
        drawing_words="A dot is a shard. Its area shows the number of its samples. An arrow goes from the shard that "
        "learns to the shard that it learns from: all schools learn from the museum, no school from another.",
        accuracy=tuple(
            Bar(name, found["accuracy"], f"{found['accuracy']:.1%}", main)
            for name, found, main in (
                (f"before, {before['samples']} images", before, False),
                (f"after, {after['samples']} images", after, True),
            )
        ),
        accuracy_words="Held-out images of the school were forgotten, too, so the second bar is of fewer images.",
        cost=_cost(story),
        cost_words="Samples that the training reads again, and seconds on this machine. No other shard learns from the "
        "school, so nothing is trained again when it leaves. All shards learn from the museum, which costs the most.",
        models=(("trained, then forgot", after["model_digest"]), ("never saw", story.never_saw["model_digest"])),
        pictures=_pictures(story, rows),
        pictures_words="The image that was forgotten alone, and some images of the school. They are shown because "
        "this is a demonstration with public data; neither workspace holds them any more.",
        certificates=tuple(step.certificate for step in story.steps),
        checks=tuple((check["name"], check["detail"]) for check in story.verified["checks"]),
    )


def _cost(story: "Story") -> tuple[Bar, ...]:
    """The full training, each forget, and the forget that would cost the most."""
    samples, worst = story.graph.samples, story.graph.worst
    forgets = [
        Bar(
            f"forgetting {step.what}",
            step.plan["share_of_full_retraining"],
            f"{step.plan['samples_to_revisit']} samples, {step.seconds:.1f} s",
        )
        for step in story.steps
    ]
    return (
        Bar("full training", 1.0, f"{samples} samples, {story.learned['seconds']:.1f} s", main=False),
        *forgets,
        Bar("forgetting one image of the museum", worst / samples, f"{worst} samples", main=False),
    )


def _pictures(story: "Story", rows: "list[Digit]") -> tuple[Picture, ...]:
    alone = story.steps[0].what.split()[-1]
    school = story.steps[1].what.split()[-1]
    one = [Picture(row.image, f"{row.id}, a {row.label}, from {row.source}") for row in rows if row.id == alone]
    some = [Picture(row.image, f"a {row.label}, from {row.source}") for row in rows if row.source == school]
    return (*one, *some[:SHOWN])
