"""Training a neural language model: texts -> a network, epoch by epoch."""

import contextlib
import os
import sys
import warnings
import zlib
from dataclasses import dataclass, field, replace

from lmtk.errors import LmtkError, LmtkWarning, UsageError, name_of
from lmtk.files.inputs import is_stream
from lmtk.jobs.rules import (
    check,
    check_outputs,
    either,
    excludes,
    marks_of,
    needs,
    one_of,
    one_stdin,
    required,
    unknown_word,
    wrong,
)
from lmtk.jobs.texts import LOWERED_RULES, SHORT_TEXT, Reading, convert_texts


@dataclass(frozen=True)
class Life:
    """How a training begins, ends and reports.

    minutes: the time after which it ends. save_every: the number of minibatches between checkpoints.
    resume: continue from the checkpoint. finish: write the best model of the checkpoint, and do not train.
    log, plot: files for a table and for a picture of the figures of each epoch.
    debug: how much to report. quiet: show no progress bar.
    """

    minutes: float | None = None
    save_every: int | None = None
    resume: bool = False
    finish: bool = False
    log: str | None = None
    plot: str | None = None
    debug: int = 0
    quiet: bool = False


@dataclass(frozen=True)
class TrainJob:
    """Train a neural language model. A field that is None gets its value from the recipe.

    text, heldout: files of texts. lm: the file of the model. vocab: a word list; None: the words of the text.
    model: nplm, tdnn, rnn, gru, lstm or energy. order: each word is predicted from the order - 1 words before it.
    layers: the number of hidden layers. hidden: the number of units in a hidden layer. features: the number of features
    of a word. senses: feature vectors for each word.
    paper: use the recipe of the paper. epochs: passes over the text. minibatch: examples in an update.
    rate: the initial learning rate for one example. decay: r of rate / (1 + r t) after t examples.
    patience: stop after this number of epochs without a better held-out perplexity.
    dropout, word_dropout, weight_dropout: the fraction of units, of words and of recurrent weights that an update sets
    to 0.
    objective: full, shortlist, sampled, nce, class or tree.
    shortlist: the number of words that the network predicts; lm_rest: the model of the other words.
    samples: words drawn for a minibatch. effective_samples: draw words until the effective sample size is this number.
    proposal: the distribution from which words are drawn, "uniform" or the file of a back-off model.
    parallel: what the ranks of mpi share, "outputs" or "data".
    """

    text: str | None = None
    heldout: str | None = None
    lm: str | None = None
    vocab: str | None = None
    unk: bool = False
    map_unk: str = "<unk>"
    model: str = "nplm"
    target_weights: bool = False
    order: int | None = None
    layers: int = 1
    hidden: int = 100
    features: int = 60
    senses: int | None = None
    direct: bool = False
    tied: bool = False
    paper: bool = False
    epochs: int | None = None
    rate: float | None = None
    decay: float | None = None
    weight_decay: float | None = None
    feature_rate: float | None = None
    dropout: float = 0
    word_dropout: float = 0
    weight_dropout: float = 0
    objective: str | None = None
    shortlist: int | None = None
    lm_rest: str | None = None
    classes: str | None = None
    tree_features: str | None = None
    samples: int | None = None
    effective_samples: float | None = None
    proposal: str | None = None
    minibatch: int | None = None
    patience: int | None = None
    init_features: str | None = None
    seed: int = 1
    threads: int | None = None
    mpi: bool = False
    parallel: str | None = None
    no_sos: bool = False
    no_eos: bool = False
    stream: bool = False
    tolower: bool = False
    life: Life = field(default_factory=Life)
    reading: Reading = field(default_factory=Reading)

    def __post_init__(self):
        check(self, [required("lm")] if self.life.finish else RULES)
        convert_texts(self, self.reading, "text", "heldout")
        features = self.init_features, self.classes, self.tree_features, self.proposal
        one_stdin(self.text, self.heldout, self.vocab, *features)
        unknown_word(self.map_unk)

    @property
    def marks(self):
        return marks_of(self)

    @property
    def shares_outputs(self):
        """Whether the ranks share the output units."""
        return self.mpi and self.parallel != "data"


NO_EPOCHS = wrong(lambda job: job.epochs is not None and job.epochs < 1, "-epochs must be 1 or more")


def no_such_model(job):
    """The message about a model, or an objective of it, that does not exist; or None."""
    from lmtk.nplm.objectives import MODELS

    if job.model not in MODELS:
        return f"-model is {either(MODELS)}, not {job.model}"
    if job.objective and job.objective not in MODELS[job.model]:
        scope = f" with -model {job.model}" if job.model == "energy" else ""
        return f"-objective{scope} is {either(MODELS[job.model])}, not {job.objective}"
    return None


def is_energy(job):
    return job.model == "energy"


def layer_of(job):
    """The Layer of the job's model. For an unknown model, which `no_such_model` reports, it is the paper's Layer."""
    from lmtk.nplm.layers import LAYERS

    return LAYERS.get(job.model, LAYERS["nplm"])


def draws(job):
    """Whether the objective of the job draws words, or may draw them: without -objective the recipe chooses it."""
    from lmtk.nplm.objectives import ESTIMATED

    return job.objective in (None, *ESTIMATED)


def is_read_twice(job):
    """Whether a text that can be read only once would be read for its words and for the training."""
    return not job.vocab and job.text and is_stream(job.text)


RULES = (
    required("lm"),
    required("text"),
    no_such_model,
    NO_EPOCHS,
    wrong(lambda job: is_energy(job) and job.direct, "-direct cannot be combined with -model energy"),
    wrong(lambda job: job.order == 1 and layer_of(job).needs_context, "-model {model} needs -order 2 or more"),
    wrong(lambda job: job.layers > 1 and not layer_of(job).carries, "-layers needs -model gru or lstm, not {model}"),
    wrong(
        lambda job: job.hidden == 0 and layer_of(job).needs_hidden,
        "-model {model} needs hidden units; -hidden must be above 0",
    ),
    wrong(
        lambda job: job.tied and job.hidden != job.features,
        "-tied needs -hidden and -features to be equal, not {hidden} and {features}",
    ),
    excludes("tied", "direct"),
    wrong(
        lambda job: job.tied and not draws(job) and job.objective != "full",
        "-tied needs -objective full, sampled or nce",
    ),
    wrong(lambda job: job.tied and is_energy(job), "-tied cannot be combined with -model energy"),
    wrong(lambda job: is_energy(job) and job.dropout, "-dropout cannot be combined with -model energy"),
    wrong(lambda job: is_energy(job) and job.word_dropout, "-word-dropout cannot be combined with -model energy"),
    wrong(
        lambda job: job.weight_dropout and not layer_of(job).recurrent_arrays,
        "-weight-dropout needs -model rnn, gru or lstm, not {model}",
    ),
    wrong(
        lambda job: job.senses and (is_energy(job) or layer_of(job).carries),
        "-senses needs -model nplm, tdnn or rnn, not {model}",
    ),
    excludes("senses", "tied init_features"),
    wrong(
        lambda job: job.hidden == 0 and not job.direct,
        "-hidden 0 needs -direct, because otherwise nothing connects the features to the outputs",
    ),
    wrong(lambda job: job.target_weights and not is_energy(job), "-target-weights needs -model energy"),
    wrong(
        lambda job: job.objective == "shortlist" and not job.lm_rest,
        "-objective shortlist needs -lm-rest, a back-off model for the other words",
    ),
    wrong(lambda job: job.lm_rest and job.objective != "shortlist", "-lm-rest needs -objective shortlist"),
    wrong(lambda job: job.shortlist and job.objective != "shortlist", "-shortlist needs -objective shortlist"),
    wrong(lambda job: job.lm_rest == "-", "-lm-rest must be a file, not stdin, because the model refers to it"),
    wrong(lambda job: job.samples and not draws(job), "-samples needs -objective sampled or nce"),
    wrong(lambda job: job.proposal and not draws(job), "-proposal needs -objective sampled or nce"),
    wrong(
        lambda job: job.effective_samples and job.objective not in (None, "sampled"),
        "-effective-samples needs -objective sampled",
    ),
    wrong(
        lambda job: job.effective_samples and is_energy(job),
        "-effective-samples cannot be combined with -model energy",
    ),
    wrong(
        lambda job: job.classes and job.objective not in ("class", "tree"), "-classes needs -objective class or tree"
    ),
    wrong(lambda job: job.tree_features and job.objective != "tree", "-tree-features needs -objective tree"),
    excludes("classes", "tree_features"),
    needs("patience", "heldout"),
    excludes("minutes", "mpi"),
    needs("parallel", "mpi"),
    one_of("parallel", ("outputs", "data")),
    wrong(
        lambda job: job.shares_outputs and is_energy(job),
        "-mpi cannot share the outputs of -model energy; add the option -parallel data",
    ),
    excludes("mpi", "tied"),
    wrong(
        lambda job: job.mpi and job.parallel == "data" and layer_of(job).carries,
        "-parallel data cannot be combined with -model {model}, which reads the text in order",
    ),
    wrong(
        lambda job: job.shares_outputs and job.objective in ("class", "tree"),
        "-mpi cannot share the outputs of -objective {objective}; add the option -parallel data",
    ),
    wrong(
        is_read_twice, "-text {text} can be read only once, but without -vocab it is read twice; give -vocab or a file"
    ),
    *LOWERED_RULES,
)
# what to do about an epoch that is worse than the unigram, and about one that overfits
SLOW = "the recipe of -paper learns slowly, so more -epochs or -minutes may help"
REMEDIES = (
    "a lower -rate may help, if the held-out text is similar to the training text",
    "fewer -epochs, -dropout, more -weight-decay or fewer -hidden units may help",
)
# options without a default of their own, which the recipe fills in
CHOSEN = (
    "epochs", "rate", "decay", "weight_decay", "feature_rate", "minibatch", "patience", "objective", "samples",
    "effective_samples", "shortlist",
)  # fmt: skip


def train(job):
    """Runs a TrainJob: trains, and writes the model with the best held-out perplexity."""
    from lmtk import run
    from lmtk.machine.parallel import ALONE, ranks, tell_alone
    from lmtk.machine.threads import use

    if not job.mpi:
        tell_alone()
    use(job.threads or (1 if job.mpi else None))
    with ranks(job.life.debug > 0) if job.mpi else contextlib.nullcontext(ALONE) as comm:
        if job.life.finish:
            comm.share(lambda: run.finish("nplm-train", job.lm, job.life.debug))
            return
        learn(job, comm)
        if job.mpi and job.life.debug > 0:
            times = zip(("compute", "communication", "waiting"), comm.times())
            if comm.rank == 0:
                shown = ", ".join(f"{name} {t:.3f} s" for name, t in times)
                sys.stderr.write(f"{comm.size} ranks, mean: {shown}\n")


def learn(job, comm):
    """Trains with the ranks of `comm`."""
    from lmtk import run
    from lmtk.jobs.progress import Reporter
    from lmtk.machine.threads import thread_count
    from lmtk.ngram.generation import mean_chances
    from lmtk.nplm import training
    from lmtk.nplm.asynchronous import Common

    settings, data, network, noise, inputs = comm.share(lambda: prepare(job, comm))
    vocab = network.vocab
    if noise:
        data = replace(data, proposal=mean_chances(noise, vocab))
    course = run.Run(
        program="nplm-train", model=job.lm, settings=settings, inputs=inputs,
        words=("vocab, -unk, -tolower, -no-eos or -stream", vocab.words), steps=training.count_steps(data, settings),
        unigram=training.unigram_logp(data, vocab), save_every=job.life.save_every,
        arrays=lambda progress, now: training.checkpoint_arrays(now, progress),
        parts=lambda progress: training.best_network(progress, settings).parts(),
        line=line, remedies=(SLOW if job.paper and job.rate is None else REMEDIES[0], REMEDIES[1]),
    )  # fmt: skip

    def first_progress():
        fresh = training.begin(network, settings)
        if not run.has_checkpoint(course, job.life.resume):
            return fresh
        arrays = training.checkpoint_arrays(fresh.network, fresh)
        return training.restore(*run.resume(course, arrays, network.named(), job.life.debug), network)

    progress = comm.share(first_progress)
    tell = Reporter(course, progress, job.life, silent=comm.rank > 0)
    common = Common(comm) if job.parallel == "data" else None
    run.run_training(
        course, progress, training.train(progress, data, settings, thread_count(), comm, common), tell, comm
    )


def prepare(job, comm):
    """(training.Settings, training.Data, the network before training, the model of -proposal, the inputs of a Run)."""
    from lmtk import run
    from lmtk.files.inputs import digest
    from lmtk.nplm import training
    from lmtk.nplm.outputs import units_of_rank
    from lmtk.text.corpus import whole_corpus

    inputs = job.vocab, job.classes, job.proposal, job.init_features, job.tree_features, job.lm_rest
    inputs = *inputs, job.reading.tokenizer
    check_trained((job.text, job.heldout), job.lm, job.life, inputs)
    run.check_no_checkpoint(job.lm, job.life.resume)
    if comm.rank == 0 and job.heldout and os.path.realpath(job.text) == os.path.realpath(job.heldout):
        clause = f"-text and -heldout are the same file, {job.text}, so the model is not tested on unseen text"
        warnings.warn(f"{clause}; give another text as -heldout", LmtkWarning, stacklevel=1)
    noise = load_proposal(job.proposal) if job.proposal not in (None, "uniform") else None
    vocab = vocabulary_of(job)
    if noise and not any(map(noise.vocab.predicts, vocab.words[: vocab.V])):
        raise LmtkError(f"{job.proposal}: the model predicts no word of the text; make both with the same vocabulary")
    if job.shares_outputs:
        units_of_rank(vocab.V, comm)  # if it fails, it fails here on one rank, before all ranks call it
    settings = settings_of(job, vocab, noise)
    corpus = whole_corpus(job.text, vocab, job.marks)
    held = whole_corpus(job.heldout, vocab, job.marks) if job.heldout else None
    data = training.make_examples(corpus, vocab, settings.order, held, settings.layer)
    if held is not None and not len(training.heldout_tokens(held, vocab)):
        raise LmtkError(f"{name_of(job.heldout)}: none of its words is in the vocabulary; is it the right text?")
    network = before_training(job, vocab, settings, data.w)
    inputs = {
        "text or -heldout": training.fingerprint(data),
        "classes": crc(network.named().get("classes")),
        "classes or -tree-features": crc(network.named().get("tree")),
        "proposal": digest(job.proposal) if noise else None,
        "lm-rest": digest(job.lm_rest),
        "init-features": digest(job.init_features),
    }
    return settings, data, network, noise, inputs


def vocabulary_of(job):
    """The words of -vocab, or those of the text, the most frequent first."""
    from lmtk.text.corpus import by_count, count_words
    from lmtk.text.vocab import make_vocab, read_vocab, with_tokenizer

    if job.vocab:
        words = read_vocab(job.vocab, job.tolower)
    else:
        counts = count_words([job.text], job.tolower)
        words = by_count(counts, counts)
        if job.unk and os.fsencode(job.map_unk) not in counts and sum(counts.values()) >= SHORT_TEXT:
            clause = f"does not contain {job.map_unk}, so the network does not learn the probability of {job.map_unk}"
            remedy = "give a -vocab that leaves out rare words, or leave out -unk"
            warnings.warn(f"{name_of(job.text)} {clause}; {remedy}", LmtkWarning, stacklevel=1)
    vocab = make_vocab(words, job.unk, job.marks.eos, os.fsencode(job.map_unk), job.vocab or job.text)
    return with_tokenizer(vocab, job.reading.digest())


def settings_of(job, vocab, noise):
    """The training.Settings: those of the job, and the recipe's. noise: the model of -proposal, or None."""
    from lmtk.nplm import recipes

    names = "order", "hidden", "features", "direct", "seed", "senses", *CHOSEN
    none_if_off = "tied", "dropout", "word_dropout", "weight_dropout"
    others = {
        "model": None if job.model == "nplm" else job.model,
        "layers": None if job.layers == 1 else job.layers,
        "proposal": "back-off" if noise else job.proposal,
        "target_weights": job.target_weights if is_energy(job) else None,
        "minutes": job.life.minutes,
    }
    settings = {name: getattr(job, name) for name in names} | {name: getattr(job, name) or None for name in none_if_off}
    return recipes.make_settings(settings | others, job.paper, vocab.V)


def before_training(job, vocab, settings, w):
    """The network that training starts from; w: the words of the text."""
    from lmtk.files.registry import load
    from lmtk.joint.mixture import name_in
    from lmtk.joint.shortlist import shortlisted
    from lmtk.nplm import training
    from lmtk.nplm.classes import read_word_classes

    features = training.read_features(job.init_features, vocab, settings.features) if job.init_features else None
    grouped = read_word_classes(job.classes, vocab) if job.classes and settings.objective == "class" else None
    network = training.initial_network(vocab, settings, w, features, grouped, strings_of(job, vocab))
    if settings.objective != "shortlist":
        return network
    rest = job.lm_rest
    return shortlisted(network, w, settings.shortlist, load(rest), rest, name_in(job.lm, rest))


def strings_of(job, vocab):
    """The function that gives the words' strings in the tree of -objective tree from their counts; None: no strings."""
    from lmtk.nplm import training, tree

    if job.objective != "tree" or not (job.classes or job.tree_features):
        return None
    if job.classes:
        strings = tree.read_strings(job.classes, vocab)
        return lambda counts: strings
    vectors = training.read_features(job.tree_features, vocab)
    return lambda counts: tree.bisect_words(vectors, counts)


def load_proposal(path):
    """The back-off model in a file. Raises UsageError for other kinds."""
    from lmtk.files.registry import load
    from lmtk.lm import kind_of_model
    from lmtk.ngram.model.backoff import Backoff

    model = load(path)
    if not isinstance(model, Backoff):
        raise UsageError(f"-proposal takes uniform or a back-off model, not {kind_of_model(model)}")
    return model


def crc(array):
    """A checksum of an array, or None, by which a resumed run recognizes its inputs."""
    return None if array is None else zlib.crc32(array)


def line(epoch, to_go):
    """An epoch, at -debug 1."""
    text = f"epoch {epoch.number}: "
    text += "" if epoch.ppl is None else f"training ppl{'~' if epoch.estimated else '='} {epoch.ppl:.7g} "
    text += "" if epoch.heldout is None else f"held-out ppl= {epoch.heldout_ppl:.7g} "
    return f"{text}{epoch.speed:.0f} words/s" + " best" * (epoch.best and epoch.heldout is not None)


def check_trained(texts, model, life, inputs=()):
    """Checks, before training, that the model and the files of -log and -plot can be written."""
    from lmtk.files import figure
    from lmtk.run import checkpoint_of

    if life.plot:
        if os.path.splitext(life.plot)[1][1:] not in figure.KINDS:
            raise UsageError(f"-plot {life.plot} must end in .svg, .png or .pdf")
        figure.check_matplotlib("plot")
    check_outputs(model, checkpoint_of(model), life.log, life.plot, texts=texts, inputs=inputs)
