# make demo   builds .venv and runs the quick start, from raw text to a table of perplexities
# make test   builds .venv and runs the test suite
# make test-all  the same, with all random cases and parameters, with the oldest numpy and numba, and with programs that
#                read KenLM files or import kenlm, and kaldilm; against SRILM and KenLM too where they are on PATH
# make smoke  wheel and sdist, installed and removed again, by the Pythons at hand
# make docs   README, manual pages and examples as HTML in build/docs (needs mandoc)
# make paper BROWN=FOLDER MULTI30K=FOLDER  the tables and figures of both papers, and the pages in build/paper; two to
#             three hours of two cores; it goes on where it was interrupted; without a folder its part is left out
PYTHON ?= python3
BIN = $(CURDIR)/.venv/bin
# by a path, so that the package is found before a folder of its name, as the checkout is to whoever works beside it
EDITABLE = --config-settings editable_mode=compat -e

demo: .venv/installed
	$(MAKE) -C examples/1-quickstart LMTK=$(BIN)/lmtk PYTHON=$(BIN)/python

test test-all: .venv/installed-test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python -m pytest -q -n auto --dist worksteal $(if $(filter test-all,$@),--all)
	$(if $(filter test-all,$@),$(MAKE) oldest decoders)

# timings, side by side with references where they are installed; stability*.py are no timings, and take hours
bench: .venv/installed
	for b in $(filter-out %/stability.py %/stability_nmt.py,$(wildcard tests/bench/*.py)); do $(BIN)/python $$b || exit 1; done

PYTHONS = $(PYTHON):1.26.* python3.12 python3.13 python3.14
smoke:
	sh tests/smoke.sh $(PYTHONS)

docs: .venv/installed
	$(BIN)/pip install -q $(EDITABLE) '.[docs]'
	$(BIN)/python man/pages.py build/docs

EXAMPLE = $(MAKE) LMTK=$(BIN)/lmtk PYTHON=$(BIN)/python -C examples
# the pages are written even if a check fails, or a part cannot be made
paper: .venv/installed
	$(BIN)/pip install -q $(EDITABLE) '.[docs,plot]' sacrebleu
	$(MAKE) -k paper-figures; status=$$?; $(BIN)/python man/pages.py build/paper && exit $$status
paper-figures: paper-quickstart paper-translate $(if $(BROWN),paper-brown) $(if $(MULTI30K),paper-multi30k)
paper-quickstart:
	$(EXAMPLE)/1-quickstart all bedroom
paper-translate:
	$(EXAMPLE)/3-translate all lengths
paper-brown:
	$(EXAMPLE)/2-brown DATA=$(abspath $(BROWN)) check energy.ppl table1.svg curves words
paper-multi30k:
	$(EXAMPLE)/4-multi30k DATA=$(abspath $(MULTI30K)) all maps long

# the oldest numpy, which other people's programs want, numba and llvmlite: kernels, lmtk from Python, some commands
OLDEST = numpy==1.26.* numba==0.61.* llvmlite==0.44.*
oldest: .venv-oldest/installed
	.venv-oldest/bin/python -m pytest -q -p no:cacheprovider --all tests/test_api.py tests/test_jit.py tests/test_systems.py
	.venv-oldest/bin/python -m pytest -q -p no:cacheprovider tests/test_cases.py -k "lm-kneser or gates or tree-of"
.venv-oldest/installed: pyproject.toml
	$(PYTHON) -m venv .venv-oldest
	.venv-oldest/bin/pip install -q $(OLDEST) pytest hypothesis $(EDITABLE) .
	touch $@

# programs that contain KenLM's library, and read the files that lmtk writes; and kaldilm, and readers of FSTs
DECODERS = numpy==1.26.* ufal.kenlm==26.4.1 flashlight-text==0.0.7 ctc-beam-decoder==0.2.0 pyctcdecode==0.5.0
DECODERS += kaldilm==1.15.5 kaldifst==1.8.3 pynini==2.1.7
# programs that import kenlm, and run with lmtk's module too; datatrove wants another numpy than the decoders
IMPORTERS = ufal.kenlm==26.4.1 datatrove==0.10.1 regex
# where they cannot be installed they are not tried; there are wheels for few Pythons and systems
define try_clients
	@if $(MAKE) -s .venv-$1/installed; then for client in $2; do \
	    .venv-$1/bin/python tests/clients/$$client.py $(BIN)/lmtk 2> /dev/null || exit 1; done; \
	else echo "the programs of .venv-$1 cannot be installed here: not tried"; fi
endef
decoders: .venv/installed
	$(call try_clients,decoders,decoders transducers importers)
	$(call try_clients,importers,importers)
.venv-decoders/installed .venv-importers/installed: pyproject.toml Makefile
	$(PYTHON) -m venv $(@D)
	$(@D)/bin/pip install -q $(if $(filter .venv-decoders/%,$@),$(DECODERS),$(IMPORTERS)) $(EDITABLE) '.[bpe]'
	touch $@

.venv/bin/python:
	$(PYTHON) -m venv .venv
.venv/installed: pyproject.toml | .venv/bin/python
	$(BIN)/pip install -q $(EDITABLE) .
	touch $@
.venv/installed-test: pyproject.toml | .venv/bin/python
	$(BIN)/pip install -q $(EDITABLE) '.[test]'
	touch $@ .venv/installed

clean:
	rm -rf .venv .venv-oldest .venv-decoders .venv-importers build *.egg-info
	$(MAKE) -C examples/1-quickstart clean

.PHONY: demo test test-all oldest decoders bench smoke docs clean
.PHONY: paper paper-figures paper-quickstart paper-translate paper-brown paper-multi30k
