"""The life of a training run, for all kinds of models: from the start or a checkpoint, epoch by epoch, to a model file.

`run_training` follows a run, shows its progress, writes checkpoints and handles signals. The model file appears only
when the run has ended by itself. Until then there is a checkpoint, named like the model with ".ckpt" appended. It holds
the best model so far and everything that the run needs to continue. -resume continues the run (`resume`); -finish
writes the best model so far (`finish`).
"""

import contextlib
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields
from threading import current_thread, main_thread

from lmtk.errors import Diverged, FormatError, LmtkError, notes, option_name
from lmtk.files import container, curve, registry
from lmtk.files.declared import CHECKPOINT, check_array, check_settings, like, vocabulary
from lmtk.files.inputs import open_in
from lmtk.files.outputs import is_written_in_place, open_out
from lmtk.machine.parallel import ALONE

STATE = "epoch", "step", "L", "best_epoch", "seconds"  # of a Progress, beside its curve


@dataclass(frozen=True)
class Run:
    """A training run, as `run_training` and the checkpoint need it.

    program: the name of the command; model: the file to write; settings: a dataclass with epochs and patience (0: the
    run does not end early); inputs: for each option that names an input, a number that is the same for the same
    content; words: (the option that names the vocabulary, the words); steps: minibatches of an epoch; unigram: the mean
    ln p of the words of the training text and of the held-out text (None without one) by the unigram of the training
    text, which a model must exceed; save_every: minibatches between checkpoints, None: an epoch, 0: no checkpoints.
    arrays(progress, now): the arrays of a checkpoint, from what the function that a stretch of `run_training` yields
    returns; parts(progress): the contents of the file of the best model, as `container.write` takes them; line(epoch,
    seconds to go): what -debug 1 prints about an epoch. remedies: advice for an epoch that is worse than the unigram,
    and for one that overfits the training text.
    """

    program: str
    model: str
    settings: object
    inputs: dict
    words: tuple
    steps: int
    unigram: tuple
    save_every: int | None
    arrays: Callable
    parts: Callable
    line: Callable
    remedies: tuple

    @property
    def checkpoint(self):
        return checkpoint_of(self.model)


def checkpoint_of(model):
    """The path of a model's checkpoint; None if the model is written to a pipe or a device."""
    return None if is_written_in_place(model) else model + ".ckpt"


def kind_of(program):
    return program.removesuffix("-train") + "-checkpoint"


def check_no_checkpoint(model, resume):
    """Raise LmtkError if a new run would overwrite the checkpoint of a run that has not ended."""
    checkpoint = checkpoint_of(model)
    if checkpoint and not resume and os.path.exists(checkpoint):
        ways = "-resume continues it, -finish writes its best model; or remove the checkpoint"
        raise LmtkError(f"{checkpoint}: an unfinished run; {ways}")


def read_checkpoint(program, checkpoint):
    """Read (settings, arrays) of a checkpoint. Raises FormatError."""
    with open_in(checkpoint) as stream:
        about, arrays = container.read(stream, checkpoint)
    if about["kind"] != kind_of(program):
        raise FormatError(checkpoint, f"a file of kind {about['kind']}, not a checkpoint of {program}")
    if "model" not in about["settings"]:
        raise FormatError(checkpoint, "a checkpoint of an earlier version of lmtk; remove it and start again")
    check_settings(about["settings"], CHECKPOINT, checkpoint)
    state = about["settings"]["state"]
    epoch, best, epochs = state["epoch"], state["best_epoch"], len(state["curve"]) - 1
    if epochs != epoch or (best > 0) != (epoch > 0) or best > epoch or (best > 0) != bool(about["settings"]["model"]):
        mismatch = f"epoch {epoch}, best epoch {best} and a curve of {epochs} epochs do not match"
        raise FormatError(checkpoint, f"damaged: {mismatch}")
    return about["settings"], arrays


def finish(program, model, debug=0):
    """Do the work of -finish: write the best model in the checkpoint, end the run, and say which epoch it is from, at
    -debug 1 or on a terminal. Raises LmtkError.
    """
    checkpoint = checkpoint_of(model)
    if not checkpoint or not os.path.exists(checkpoint):
        named = str(model).endswith(".ckpt")
        remedy = (
            "give the model's name, without .ckpt" if named else "-finish needs the checkpoint of an unfinished run"
        )
        raise LmtkError(f"{checkpoint or model}: no such checkpoint; {remedy}")
    about, arrays = read_checkpoint(program, checkpoint)
    state, about = about["state"], about["model"]
    if about is None:
        raise LmtkError(f"{checkpoint}: no epoch is finished, so there is no model yet; -resume continues the run")
    best = {name.removeprefix("best."): a for name, a in arrays.items() if name.startswith("best.")}
    registry.make_model(about, best | {"vocabulary": arrays["vocabulary"]}, checkpoint)  # raises if it is damaged
    with open_out(model, lasting=True) as out:
        container.write(out, about["kind"], about["settings"], best, vocabulary(arrays, checkpoint))
    remove(checkpoint)
    kept = curve.epochs(state["curve"])[state["best_epoch"] - 1]
    line = f"{model}: the model of epoch {kept.number}, {curve.format_short(kept)}"
    if debug:
        sys.stderr.write(line + "\n")
    else:
        for tell in notes:
            tell(line)


def has_checkpoint(run, resume):
    """Whether there is a checkpoint to continue from."""
    return bool(resume and run.checkpoint and os.path.exists(run.checkpoint))


def resume(run, fresh, best, debug=0):
    """Read the checkpoint of a run: (the arguments of a Progress, the arrays). -debug 1 prints where the run continues.

    fresh: the arrays of the run before training; best: the arrays of its model file; the arrays of the checkpoint must
    have their names and shapes. Raises FormatError if the checkpoint is from another run, LmtkError if the run cannot
    continue.
    """
    about, arrays = read_checkpoint(run.program, run.checkpoint)
    # an earlier version's checkpoint lacks options that came later
    before = {f.name: f.default for f in fields(run.settings) if f.default is not MISSING} | about["run"]
    changed = [option_name(f) for f in fields(run.settings) if before.get(f.name) != getattr(run.settings, f.name)]
    if vocabulary(arrays, run.checkpoint) != run.words[1]:
        changed.append(run.words[0])
    changed += [name for name, number in run.inputs.items() if about["inputs"].get(name) != number]
    if "model" in changed:  # the defaults of other options depend on -model
        changed = ["model"]
    if changed:
        names = ", ".join(f"-{name}" for name in changed)
        remedy = "use the same options, finish that run with -finish, or remove the checkpoint"
        why = f"a checkpoint of another run: {names} {'differs' if len(changed) == 1 else 'differ'}"
        raise FormatError(run.checkpoint, f"{why}; {remedy}")
    state = about["state"]
    if state["diverged"]:
        raise LmtkError(
            f"{run.checkpoint}: this run diverged and would diverge again; -finish writes the model of epoch "
            f"{state['best_epoch']}, or remove the checkpoint"
        )
    wanted = like(fresh) | ({f"best.{name}": a for name, a in like(best).items()} if state["best_epoch"] else {})
    for name, array in wanted.items():
        check_array(arrays.get(name), array, name, run.checkpoint)
    if debug:
        place = f"epoch {state['epoch'] + 1}, step {state['step'] + 1}"
        sys.stderr.write(f"continuing from {run.checkpoint}: {place}\n")
    return {name: state[name] for name in STATE} | {"curve": curve.epochs(state["curve"])}, arrays


def write_checkpoint(run, progress, arrays, diverged=False):
    """Write everything that a run needs to continue, and the best model so far."""
    state = {name: getattr(progress, name) for name in STATE}
    state |= {"curve": curve.rows(progress.curve), "diverged": diverged}
    about = {"run": vars(run.settings), "inputs": run.inputs, "state": state, "model": None}
    if progress.best is not None:
        kind, settings, best, _ = run.parts(progress)
        about["model"] = {"kind": kind, "settings": settings}
        arrays = arrays | {"best." + name: a for name, a in best.items()}
    with open_out(run.checkpoint, lasting=True) as out:
        container.write(out, kind_of(run.program), about, arrays, run.words[1])


def remove(checkpoint):
    if checkpoint:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(checkpoint)


@contextlib.contextmanager
def interruptible():
    """A list that gets the number of the signal that asks to stop. A second signal stops at once. Only the main thread
    can take signals; in another thread nothing changes.
    """
    cut = []
    if current_thread() is not main_thread():
        yield cut
        return

    def note(number, frame):
        if cut:
            raise KeyboardInterrupt
        cut.append(number)

    asking = [signal.SIGINT, signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # nohup ignores it
        asking.append(signal.SIGHUP)
    old = {s: signal.signal(s, note) for s in asking}
    try:
        yield cut
    finally:
        for s, handler in old.items():
            signal.signal(s, signal.SIG_DFL if handler is None else handler)  # None: it was not set by Python


def has_ended(progress, settings):
    """Whether all epochs or -minutes are over, or `patience` epochs have passed without a better one."""
    waited = progress.epoch - progress.best_epoch
    return progress.out_of_time or progress.epoch >= settings.epochs or 0 < settings.patience <= waited


def run_training(run, progress, stretches, tell, comm=ALONE):
    """Follow a training run to its end and write its model. After a signal, raises KeyboardInterrupt or
    SystemExit, as Python does.

    stretches: an iterable that trains and changes `progress`. It yields (epoch over, words read, a function whose
    result run.arrays takes, which the ranks of `comm` call together). tell: a progress.Reporter. Raises Diverged.
    """
    stop, last, saver = 0, progress.step, Saver(run, tell)
    with tell.bar, interruptible() as cut:
        try:
            for over, words, now in () if has_ended(progress, run.settings) else stretches:
                tell(progress, over, words)
                stop = comm.max(cut[0] if cut else 0)
                if (stop or is_due(run.save_every, over, last, progress.step)) and run.checkpoint:
                    arrays = run.arrays(progress, now())
                    comm.max(0)  # with -parallel data, all ranks copy shared arrays before one of them goes on
                    if comm.rank == 0:
                        saver(progress, arrays)
                last = progress.step
                if stop or (over and has_ended(progress, run.settings)):
                    break
        except Diverged as e:
            # on every rank; the first one saves the best model
            raise Diverged(comm.share(lambda e=e: f"{e}{save_diverged(run, progress, saver)}")) from None
    if stop and not has_ended(progress, run.settings):
        if comm.rank == 0:
            sys.stderr.write(f"lmtk {run.program}: interrupted{saver.what_now(progress)}\n")
        raise KeyboardInterrupt if stop == signal.SIGINT else SystemExit(128 + stop)
    if comm.rank == 0:
        with open_out(run.model, lasting=True) as out:
            container.write(out, *run.parts(progress))
        remove(run.checkpoint)


def is_due(every, over, last, step):
    """Whether a checkpoint is to be written after the minibatches from `last` to `step` of an epoch."""
    return every != 0 and (over or (every and step // every > last // every))


def save_diverged(run, progress, saver):
    """Save the best model so far of a run that has diverged. Returns a clause for the error message."""
    if progress.best is None or not run.checkpoint:
        remove(run.checkpoint)
        return ""
    saver(progress, {}, diverged=True)
    if saver.failed:
        return f"; the best model so far could not be saved: {saver.failed}"
    return f"; the best model so far is that of epoch {progress.best_epoch}, -finish writes it"


class Saver:
    """Writes checkpoints. If a checkpoint cannot be written, it warns once, and training continues."""

    def __init__(self, run, tell):
        self.run, self.tell, self.failed = run, tell, None

    def __call__(self, progress, arrays, **options):
        progress.seconds = self.tell.elapsed()
        try:
            write_checkpoint(self.run, progress, arrays, **options)
            self.failed = None
        except OSError as e:
            if not self.failed:
                self.tell.warn(f"{self.run.checkpoint}: {e.strerror}; training continues without a new checkpoint")
            self.failed = e.strerror

    def what_now(self, progress):
        """A clause for the last line of an interrupted run: how to continue it."""
        checkpoint = self.run.checkpoint
        if not checkpoint:
            return ""
        if self.failed and not os.path.exists(checkpoint):
            return f", and no checkpoint could be written: {self.failed}"
        older = f", which is older, because a new checkpoint failed ({self.failed})" if self.failed else ""
        made = ", -finish writes the best model so far" if progress.best is not None else ""
        return f"; -resume continues from {checkpoint}{older}{made}"
