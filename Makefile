# Every target makes what it needs: `make reproduce` or `make test` alone is enough on a fresh machine.
SHELL := /bin/bash
.DEFAULT_GOAL := help
PYTHON ?= python3
VENV := .venv
PY := $(VENV)/bin/python
READY := $(VENV)/.installed

# What to measure, and how
TARGET ?= twin
PROFILE ?=
NOTEBOOKS ?=
CLIENT ?=
REMEASURE ?=
MAX_REQUESTS ?=
MAX_TOKENS ?=
PARAMS ?=
export TARGET PROFILE NOTEBOOKS CLIENT REMEASURE MAX_REQUESTS MAX_TOKENS

# The suite speaks UTF-8 whatever the locale says
export PYTHONUTF8 := 1

.PHONY: help env lab plan reproduce site check-site publish readme test engine serve search record validate-twin bench lint format lock clean

help:  ## show the targets and the settings they take
	@echo "nlqlib: a reproducible study of one LLM-backed service"
	@echo
	@grep -E '^[a-z-]+:.*  ## ' Makefile | sed -E 's/^([a-z-]+):.*  ## (.*)/  make \1\t\2/' | expand -t 24
	@echo
	@echo "settings of plan and reproduce (make reproduce TARGET=local PROFILE=quick):"
	@echo "  TARGET        twin (default) | local | https://host/v1"
	@echo "  PROFILE       full | quick          (default: full; quick for local)"
	@echo "  NOTEBOOKS     01_pipeline,05        names or their first characters (default: all)"
	@echo "  CLIENT        wire | openai         (default: the notebook's own)"
	@echo "  REMEASURE=1   measure every point again into build/ and say reproduced or changed"
	@echo "  MAX_REQUESTS, MAX_TOKENS            hard limits, checked before anything is sent"
	@echo "  PARAMS        '-p name=value …'     parameters of the notebooks"
	@echo "settings of a URL target: TARGET_NAME, MODEL, API_KEY_ENV (the *name* of the variable that holds the key),"
	@echo "  METRICS_URL, CA_FILE;   of the local engine: MODEL, VLLM_VERSION, TORCH_INDEX, NLQLIB_CACHE"
	@echo "validate-twin: NLQLIB_FIXTURES, the folder with the measured runs it is judged by"

env: $(READY)  ## make .venv from the pinned lock

$(READY): requirements.lock pyproject.toml
	@echo "installing the pinned packages into $(VENV), once: it takes minutes and says nothing more"
	@test -x $(PY) || $(PYTHON) -m venv $(VENV)
	$(PY) -m pip install --quiet --disable-pip-version-check -r requirements.lock
	$(PY) -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $(READY)

lab: $(READY)  ## open the notebooks in JupyterLab (its token stays on)
	$(PY) -m jupyterlab --notebook-dir=notebooks --LabApp.default_url=/lab/tree/start/index.ipynb

plan: $(READY)  ## say what `make reproduce` would send, and about how long it takes
	$(PY) -m nlqlib plan $(PARAMS)

reproduce: $(READY)  ## run the notebooks against TARGET (a URL ends with its site); finished points are kept
	@$(PY) -m nlqlib reproduce $(PARAMS); ended=$$?; \
	case "$(TARGET):$$ended" in *://*:[01]) $(PY) -m nlqlib site || ended=1 ;; esac; exit $$ended

site: $(READY)  ## turn the executed notebooks into a static site in build/site
	@ls build/executed/*/*.ipynb >/dev/null 2>&1 || $(MAKE) --no-print-directory reproduce
	$(PY) -m nlqlib site

check-site: $(READY)  ## every page of build/site in Chromium: console, requests, links, phone width, axe in light and dark
	@test -f build/site/index.html || $(MAKE) --no-print-directory site
	@$(PY) tests/site_check.py build/site

publish: $(READY)  ## the site as one archive, build/site.zip
	@test -f build/site/index.html || $(MAKE) --no-print-directory site
	@$(PY) -m nlqlib publish

readme: $(READY)  ## renew the README's story, pictures and costs from the executed notebooks of the twin
	@ls build/executed/twin/*.ipynb >/dev/null 2>&1 || $(MAKE) --no-print-directory reproduce TARGET=twin NOTEBOOKS=
	@$(PY) -m nlqlib readme

$(VENV)/.ray: $(READY) requirements-ray.lock
	$(PY) -m pip install --quiet --disable-pip-version-check -r requirements.lock -r requirements-ray.lock
	@touch $@

test: $(READY) $(VENV)/.ray engine  ## all tests, the real engine among them
	$(PY) -m pytest tests/engine
	$(PY) -m pytest -m "not engine"

search: $(READY)  ## the property tests on new random examples (`make test` draws the same ones every time)
	HYPOTHESIS_PROFILE=search $(PY) -m pytest -m "hypothesis and not engine"

engine: $(READY)  ## install vLLM in an environment of its own and fetch, verify and convert the model
	$(PY) -m nlqlib engine

serve: $(READY) engine  ## serve the real model on this machine until Ctrl-C
	$(PY) -m nlqlib serve local

record: $(READY) engine  ## record the answers that the twin replays, from the real engine
	$(PY) -m nlqlib record

validate-twin: $(READY)  ## every stated bound of the twin: met, not met or not run
	@$(PY) -m nlqlib validate-twin

bench: $(READY)  ## how fast the twin is, and what the clients and other load generators cost; kept in artifacts/
	@$(PY) -m benchmarks; speeds=$$?; $(PY) -m benchmarks.client_bench && exit $$speeds

lint: $(READY)  ## formatter, linter and type checker
	$(VENV)/bin/ruff format --check nlqlib tests benchmarks
	$(VENV)/bin/ruff check nlqlib tests benchmarks
	$(PY) -m mypy

format: $(READY)  ## rewrite the sources in house style
	$(VENV)/bin/ruff format nlqlib tests benchmarks
	$(VENV)/bin/ruff check --fix nlqlib tests benchmarks

lock: $(READY)  ## resolve requirements.lock anew, beside vLLM's pins
	$(PY) tests/lock.py --write

clean:  ## remove build/ (executed notebooks, the site, logs, the warehouse); artifacts and caches stay
	rm -rf build
