from lmtk.commands.options import option, takes
from lmtk.jobs.describing import DescribeJob, describe_files
from lmtk.jobs.rules import build

OPTIONS = {
    "Data": {"lm": option("Files of any kind: models, checkpoints, counts, word lists.", "FILE")},
    "Output": {"words": option("Show the first N words.", "N", low=0)},
}


@takes(DescribeJob, OPTIONS)
def command(**options):
    """Describe files: their kind, sizes, settings and vocabulary.

    Example: lmtk info model.lm
    """
    describe_files(build(DescribeJob, options))
