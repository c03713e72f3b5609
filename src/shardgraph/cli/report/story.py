"""The demo's story as a report."""

from typing import TYPE_CHECKING

from shardgraph.cli.report.content import GONE, REBUILT, Bar, Content, Picture

if TYPE_CHECKING:
    from shardgraph.cli.demo import Story
    from shardgraph.cli.digits import Digit

SHOWN = 7  # pictures of a forgotten source


def told(story: "Story", rows: "list[Digit]") -> Content:
    """All of it: the graph, the accuracy, the cost, both digests, the pictures, the certificates."""
    before, after = story.learned, story.forgot
    sample, source = story.steps
    return Content(
        title="A model that forgot, and one that never saw",
        lead=f"{len(rows)} handwritten digits from {len(story.portrait.shards)} sources were embedded by a pretrained "
        f"network and learned. Then {sample.what} and all of {source.what} were forgotten. A second workspace "
        "never saw them. Both hold the same bytes.",
        figures=(
            ("accuracy before", f"{before['accuracy']:.1%}"),
            ("accuracy after", f"{after['accuracy']:.1%}"),
            ("of the training, to forget one picture", f"{sample.plan['share_of_full_retraining']:.0%}"),
            ("the two models", "equal" if story.equal else "NOT EQUAL"),
        ),
        portrait=story.portrait,
        touched=dict.fromkeys(source.vanished, GONE) | dict.fromkeys(sample.groups, REBUILT),
        drawing_words="A dot is a shard, as large as its samples are many. An arrow goes from the shard that learns to "
        "the one it learns from: all may learn from the museum, no school learns from another.",
        accuracy=tuple(
            Bar(name, found["accuracy"], f"{found['accuracy']:.1%}", main)
            for name, found, main in (
                (f"before, {before['samples']} pictures", before, False),
                (f"after, {after['samples']} pictures", after, True),
            )
        ),
        accuracy_words="What was forgotten left the held-out pictures, too: the second bar is of fewer of them.",
        cost=_cost(story),
        cost_words="Samples that training reads again, and seconds here. Nobody learned from the school but its own "
        "adapters, so nothing has to be trained again when it leaves; the museum is another matter.",
        models=(("learned, then forgot", after["model_digest"]), ("never saw", story.never_saw["model_digest"])),
        pictures=_pictures(story, rows),
        pictures_words="The picture that was forgotten alone, and some of the school's. They are shown because this "
        "is a demonstration with public data; no workspace holds them any more.",
        certificates=tuple(step.certificate for step in story.steps),
        checks=tuple((check["name"], check["detail"]) for check in story.verified["checks"]),
    )


def _cost(story: "Story") -> tuple[Bar, ...]:
    """Learning all of it against each forget, and against what would cost the most."""
    samples, worst = story.portrait.samples, story.portrait.worst
    forgets = [
        Bar(
            f"forgetting {step.what}",
            step.plan["share_of_full_retraining"],
            f"{step.plan['samples_to_revisit']} samples, {step.seconds:.1f} s",
        )
        for step in story.steps
    ]
    return (
        Bar("learning all of it", 1.0, f"{samples} samples, {story.learned['seconds']:.1f} s", main=False),
        *forgets,
        Bar("a picture of the museum, if asked", worst / samples, f"{worst} samples", main=False),
    )


def _pictures(story: "Story", rows: "list[Digit]") -> tuple[Picture, ...]:
    alone = story.steps[0].what.split()[-1]
    school = story.steps[1].what.split()[-1]
    one = [Picture(row.image, f"{row.id}, a {row.label}, from {row.source}") for row in rows if row.id == alone]
    some = [Picture(row.image, f"a {row.label}, from {row.source}") for row in rows if row.source == school]
    return (*one, *some[:SHOWN])
