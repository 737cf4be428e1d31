"""The names of KenLM's module `kenlm`. A program that imports `kenlm` uses lmtk if it finds a file kenlm.py with

from lmtk.kenlm_module import *
"""

from lmtk.api import ARPALoadComplain, Config, FullScoreReturn, LanguageModel, LoadMethod, Model, State

__all__ = ["ARPALoadComplain", "Config", "FullScoreReturn", "LanguageModel", "LoadMethod", "Model", "State"]
