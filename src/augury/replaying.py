"""A run again, as its recorded order of completion determines it."""

from augury._errors import DataError, UnsupportedError
from augury.optimizer import Optimizer
from augury.run import Result
from augury.trial import Origin, Seen, State, Trial


def replay(source: Result | Optimizer, until: int | None = None) -> Optimizer:
    """Suggest the points of a run anew; an optimizer that knows what the run's did.

    A suggestion depends on the seed, the results so far in the order they came, and the points that
    were being evaluated. Which these were is in `trial.info["seen"]`, so that asynchronous runs, and
    those of many processes, can be re-created though chance decided the order of their evaluations.

    Args:
        source: the result of a run, or an optimizer. Of a study in a storage, the call that made it
            gives the result again.
        until: the number of a trial; the optimizer is the one of the moment when this trial was asked.
            None re-creates the whole run.

    Raises:
        DataError: a point comes out different: of another version of Augury or its libraries, or on
            another machine.

    Example:
        >>> then = replay(result, until=17)
        >>> then.ask().params == result.trials[17].params
        True
    """
    original = source.optimizer if isinstance(source, Result) else source
    if not isinstance(original, Optimizer):
        raise UnsupportedError(
            f"replay needs a Result or an Optimizer; got {type(source).__name__}. Of a study, make the "
            "call of augury.minimize again, and pass what it returns."
        )
    known = original.known
    suggested = [known[n] for n in sorted(known) if known[n].origin in (Origin.DESIGN, Origin.MODEL)]
    if until is not None and until not in {trial.number for trial in suggested}:
        raise DataError(f"until must be the number of a suggested trial; got {until!r}. Name another.")
    again: dict[str, Optimizer] = {}  # by the identity of the optimizer that asked
    batches: dict[str, dict[int, Trial]] = {}  # by identity, the points that it chose last
    for trial in suggested:
        seen = Seen.of(trial)
        if seen is None or not known.keys() >= {*seen.learnt, *seen.pending}:
            raise DataError(
                f"a replay needs trials that say what was known when they were asked; trial "
                f"{trial.number} does not. Replay runs of this version of Augury, with all their trials."
            )
        if seen.by not in again:
            again[seen.by], batches[seen.by] = original.blank(), {}
        one, batch = again[seen.by], batches[seen.by]
        if trial.number != until and seen.place and trial.number in batch:
            asked = batch[trial.number]
        else:  # the first of a batch, or the first that is known
            one.recall(known, seen)
            if trial.number == until:
                return one
            batch = {asked.number: asked for asked in one.ask(seen.count - seen.place)}
            batches[seen.by], asked = batch, batch[trial.number]
        given = {name: trial.params[name] for name in trial.info.get("enqueued", ())}
        if {**asked.params, **given} != dict(trial.params):
            raise DataError(
                f"trial {trial.number} must be at {dict(trial.params)} again; got {dict(asked.params)}. "
                "Use the versions and the machine of the run, and its algorithm and settings."
            )
    whole = original.blank()
    pending = [trial.number for trial in original.trials if trial.state is State.PENDING]
    whole.recall(known, Seen(max(known, default=-1) + 1, "", original.order, pending))
    return whole
