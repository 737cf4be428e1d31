"""What the module `kenlm` has, for programs that import it: a file kenlm.py with

    from lmtk.kenlm_module import *

makes them run with lmtk.
"""

from lmtk.api import ARPALoadComplain, Config, FullScoreReturn, LanguageModel, LoadMethod, Model, State

__all__ = ["ARPALoadComplain", "Config", "FullScoreReturn", "LanguageModel", "LoadMethod", "Model", "State"]
