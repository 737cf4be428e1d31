import math
import os
import sys
import time
from datetime import timedelta
from typing import Annotated

from lmtk.commands.options import (
    Debug,
    Quiet,
    Resume,
    SaveEvery,
    Seed,
    Threads,
    Tolower,
    needed,
    one_stdin,
    option,
)
from lmtk.commands.progress import Bar, interruptible, remove
from lmtk.errors import Diverged, UsageError

SHARE = 20  # sentences of a minibatch for which a thread pays


def command(
    source: Annotated[str | None, option("source", "The training text to translate from.", "FILE")] = None,
    target: Annotated[str | None, option("target", "Its translation, line by line.", "FILE")] = None,
    heldout_source: Annotated[str | None, option("heldout-source", "Held-out text to translate from.", "FILE")] = None,
    heldout_target: Annotated[str | None, option("heldout-target", "Its translation.", "FILE")] = None,
    model: Annotated[str | None, option("model", "The model to write.", "FILE")] = None,
    attention: Annotated[str, option("attention", "additive: RNNsearch; none: RNNencdec.", "KIND")] = "additive",
    unit: Annotated[str, option("unit", "The hidden unit: gated, the paper's, or lstm.", "KIND")] = "gated",
    hidden: Annotated[int, option("hidden", "n, hidden units.", "N", min=1)] = 256,
    embedding: Annotated[int, option("embedding", "m, size of the word embeddings.", "N", min=1)] = 256,
    maxout: Annotated[int, option("maxout", "l, maxout units of the deep output.", "N", min=1)] = 128,
    alignment: Annotated[
        int | None, option("alignment", "n', hidden units of the alignment model (default: 256).", "N", min=1)
    ] = None,
    shortlist: Annotated[
        int, option("shortlist", "The most frequent words of each side; others are [UNK].", "N", min=1)
    ] = 30000,
    bpe: Annotated[
        int | None,
        option("bpe", "Split words into N subwords, learned on both sides (default: whole words).", "N", min=2),
    ] = None,
    max_length: Annotated[int, option("max-length", "Leave out pairs with a sentence of more words.", "N", min=1)] = 50,
    minibatch: Annotated[
        int | None, option("minibatch", "Sentences in an update (default: 40, with -paper 80).", "N", min=1)
    ] = None,
    epochs: Annotated[int, option("epochs", "Passes over the text, at most.", "N", min=1)] = 16,
    keep: Annotated[
        str,
        option("keep", "bleu, likelihood: what the epoch whose model is kept is best in, on held-out text.", "KIND"),
    ] = "bleu",
    patience: Annotated[
        int, option("patience", "Stop after N epochs without a better one (0: never).", "N", min=0)
    ] = 5,
    rate: Annotated[
        float | None, option("rate", "Adam's rate at the start; falls to a twentieth (default: 0.001).", "X", min=0)
    ] = None,
    dropout: Annotated[
        float | None,
        option("dropout", "Units dropped in training (default: 0.3, with -paper 0).", "X", min=0, max=0.99),
    ] = None,
    smoothing: Annotated[
        float | None,
        option(
            "smoothing", "Label smoothing: the share of all words (default: 0.1, with -paper 0).", "X", min=0, max=0.99
        ),
    ] = None,
    paper: Annotated[
        bool, option("paper", "The paper's recipe: Adadelta, its first values, minibatches of 80, no dropout.")
    ] = False,
    tolower: Tolower = False,
    seed: Seed = 1,
    threads: Threads = None,
    save_every: SaveEvery = None,
    resume: Resume = False,
    debug: Debug = 0,
    quiet: Quiet = False,
):
    """Train the translation model of Bahdanau et al. 2015, RNNsearch.

    The model with the highest held-out BLEU is kept. -debug 1 prints a line an epoch.

    \b
    Example: lmtk nmt-train -source train.en -target train.fr -heldout-source val.en -heldout-target val.fr \\
               -shortlist 6000 -model en-fr.bin
    """
    needed(source, "source"), needed(target, "target"), needed(model, "model")
    one_stdin(source, target, heldout_source, heldout_target)
    if (heldout_source is None) != (heldout_target is None):
        raise UsageError("-heldout-source and -heldout-target go together")
    if attention not in ("additive", "none"):
        raise UsageError(f"-attention is additive or none, not {attention}")
    if unit not in ("gated", "lstm"):
        raise UsageError(f"-unit is gated or lstm, not {unit}")
    if keep not in ("bleu", "likelihood"):
        raise UsageError(f"-keep is bleu or likelihood, not {keep}")
    if attention == "none" and alignment:
        raise UsageError("-alignment has no meaning with -attention none")
    if paper and rate is not None:
        raise UsageError("-rate has no meaning with -paper: Adadelta finds its own")

    from lmtk.files.streams import check_out, open_in, open_out, written_in_place
    from lmtk.machine.threads import Team, count
    from lmtk.nbest.tuning import SIGNATURE
    from lmtk.nmt import training
    from lmtk.nmt.network import write
    from lmtk.text import subwords
    from lmtk.text.bitext import bitext, make_shortlist, read_pairs

    check_out(model)
    settings = training.Settings(
        embedding,
        hidden,
        0 if attention == "none" else alignment or 256,
        maxout,
        3 if unit == "lstm" else 2,
        minibatch or (80 if paper else 40),
        epochs,
        None if paper else 0.001 if rate is None else rate,
        dropout if dropout is not None else 0.0 if paper else 0.3,
        smoothing if smoothing is not None else 0.0 if paper else 0.1,
        "BLEU" if keep == "bleu" else keep,
        patience if heldout_source else 0,
        bpe,
        seed,
    )
    threads = threads or max(1, min(count(), settings.minibatch // SHARE))
    pairs = read_pairs(source, target, tolower)
    pieces = subwords.learn((words for pair in pairs for words in pair), bpe) if bpe else b""
    split = subwords.splitter(pieces, source)
    pairs = [(split(a), split(b)) for a, b in pairs]
    x = make_shortlist([a for a, _ in pairs], shortlist, source)
    y = make_shortlist([b for _, b in pairs], shortlist, target)
    text = bitext(pairs, x, y, max_length)
    held = bleu = None
    if heldout_source:
        heldout = [pair for pair in read_pairs(heldout_source, heldout_target, tolower) if all(pair)]
        held = bitext([(split(a), split(b)) for a, b in heldout], x, y)
        joined = subwords.joined if bpe else b" ".join
        references = [b" ".join(b) for _, b in heldout]

        def bleu(theta):
            return greedy_bleu(training.model(theta, x, y, settings), held.source, references, joined)

    if debug:
        out = f"{len(text.source)} pairs" + (f" ({text.left_out} left out: empty or too long)" if text.left_out else "")
        sys.stderr.write(f"{out}, {len(x.words)} source and {y.V} target words\n")
        if held:
            sys.stderr.write(f"BLEU of greedy translations, as sacrebleu's {SIGNATURE}\n")
    theta, data = training.initial(x, y, settings, text.target), training.fingerprint(text, held)
    progress = training.Progress(theta, theta * 0, theta * 0)
    checkpoint = None if written_in_place(model) else model + ".ckpt"
    if resume and checkpoint and os.path.exists(checkpoint):
        with open_in(checkpoint) as stream:
            progress = training.read_checkpoint(stream, checkpoint, settings, data, x, y, theta)
        if debug:
            sys.stderr.write(f"going on from {checkpoint}: epoch {progress.epoch + 1}, step {progress.step + 1}\n")

    def save():
        with open_out(checkpoint) as out:
            training.write_checkpoint(out, progress, x, y, settings, data)

    def finish():
        with open_out(model) as out:
            write(out, training.model(progress.best, x, y, settings, pieces))

    with Bar(quiet, progress.epoch / settings.epochs) as bar, interruptible() as cut:
        tell = Reporter(debug, bar, len(text.source), settings, progress)
        try:
            for over, words in training.train(progress, text, held, x, y, settings, bleu, threads, Team(threads)):
                tell(progress, over, words)
                if cut:
                    if checkpoint:
                        save()
                    break
                if checkpoint and save_every != 0 and (over or (save_every and progress.step % save_every == 0)):
                    save()
        except Diverged as e:
            # from here on the same run would come to the same end
            remove(checkpoint)
            kept = f"; the best model so far, of epoch {progress.best_epoch}, is in {model}"
            if progress.best is not None:
                finish()
            raise Diverged(f"{e}{kept if progress.best is not None else ''}") from None
    if cut:
        sys.stderr.write("lmtk nmt-train: interrupted")
        sys.stderr.write(f"; -resume goes on from {checkpoint}\n" if checkpoint else "\n")
        if progress.best is not None:
            finish()
        sys.exit(128 + cut[0])
    finish()
    remove(checkpoint)


def greedy_bleu(model, sentences, references, joined):
    """BLEU, in percent, of a model's greedy translations of sentences of ids; joined: words of the model to text."""
    from lmtk.nbest import tuning
    from lmtk.nmt import beam, training

    found = beam.Translator(model)(sentences, beam.Beam(1), training.BATCH)
    lines = (joined([model.vocab.words[w] for w in hypotheses[0].words]) for hypotheses in found)
    stats = [tuning.statistics([line], [reference])[0] for line, reference in zip(lines, references, strict=True)]
    return 100 * float(tuning.bleu(sum(stats)))


class Reporter:
    """A line an epoch at -debug 1; on a terminal a bar with the time to go."""

    def __init__(self, debug, bar, pairs, settings, progress):
        self.debug, self.bar, self.settings = debug, bar, settings
        self.steps = -(-pairs // settings.minibatch)
        self.words, self.begun = 0, time.monotonic()
        self.start, self.first = self.begun, self.done(progress)

    def done(self, progress):
        return progress.epoch * self.steps + progress.step

    def __call__(self, progress, over, words):
        self.words += words
        epochs, now = self.settings.epochs, time.monotonic()
        speed = self.words / max(now - self.begun, 1e-9)
        share = self.done(progress) / (self.steps * epochs)
        self.bar(share, f"epoch {min(progress.epoch + 1, epochs)}/{epochs}  {speed:,.0f} words/s")
        if over:
            if self.debug:
                self.bar.tell(f"{measures(progress)} {speed:.0f} words/s{self.place(progress, now)}")
            self.words, self.begun = 0, now

    def place(self, progress, now):
        """Whether an epoch was the best, and the time to go."""
        from lmtk.nmt.training import finished

        done = self.done(progress)
        left = (now - self.start) / (done - self.first) * (self.steps * self.settings.epochs - done)
        to_go = "" if finished(progress, self.settings) else f", {timedelta(seconds=round(left))} to go"
        best = progress.measured[-1][1] is not None and progress.best_epoch == progress.epoch
        return to_go + (" best" if best else "")


def measures(progress):
    training, heldout, bleu = progress.measured[-1]
    line = f"epoch {progress.epoch}: training {shown(training)}"
    return line if heldout is None else f"{line} held-out {shown(heldout)} BLEU= {bleu:.2f}"


def shown(logp):
    return f"logprob/word= {logp / math.log(10):.7g} ppl= {math.exp(min(-logp, 700)):.7g}"
