# Every command of the project is defined here once; .ci/run and the README call these targets.
#
#   make quickstart PYTHON=/path/to/python3.11     another Python than the first supported one on PATH
#   make test PYTEST_ARGS="-k attention -x"        more arguments for pytest

.DEFAULT_GOAL := help
SHELL := bash
# The programs of .venv come first on PATH, so that a recipe calls what was installed there.
WITH_VENV := PATH="$(CURDIR)/.venv/bin:$$PATH"
PYTEST_ARGS ?=
# Tests run in parallel with one thread each. The tests of a file run in one process, because they share its fixtures.
# The fixtures of tests/integration/conftest.py, such as trained models, are made once for all processes. Files keep their
# order, in which files of long tests come first: at the end they would leave the other processes idle. Without bytecode
# every process would compile the package again, and pytest would rewrite the assertions of all tests.
IN_PARALLEL := env -u PYTHONDONTWRITEBYTECODE OMP_NUM_THREADS=1 python -m pytest --numprocesses auto --maxprocesses 8 --dist loadfile --no-loadscope-reorder

.PHONY: help
help: ## show this list
	@grep -hE '^[a-z-]+:.*## ' $(firstword $(MAKEFILE_LIST)) | \
	  while IFS= read -r line; do printf '  make %-12s %s\n' "$${line%%:*}" "$${line#*## }"; done

.PHONY: setup
setup: ## make or reuse .venv with all dependencies (the other targets run this first)
	@bash scripts/setup.sh

.PHONY: quickstart
quickstart: setup ## train and use WEAN on generated data, a few minutes on a CPU
	@$(WITH_VENV) bash examples/quickstart/run.sh

.PHONY: test
test: setup ## the tests, without the slow ones
	@$(WITH_VENV) $(IN_PARALLEL) tests $(PYTEST_ARGS)

# Fast tests, which start no command. TESTS=tests/unit/models runs others.
TESTS := tests/unit/criterions tests/unit/models/test_training_mode.py tests/unit/modules tests/unit/optim
TESTS += tests/unit/test_project.py

.PHONY: check
check: ## lint, types and the fast tests, before every commit; make check TESTS=tests/unit/models runs others
	@$(MAKE) --no-print-directory lint typecheck
	@$(WITH_VENV) $(IN_PARALLEL) --quiet $(TESTS) $(PYTEST_ARGS)

.PHONY: mutants
mutants: setup ## break the package on purpose and list the breaks that no test notices (ten minutes)
	@$(WITH_VENV) OMP_NUM_THREADS=1 python scripts/mutants.py $(MUTANTS_ARGS)

.PHONY: test-slow
test-slow: setup ## the slow tests of learning and reliability; writes docs/reliability.md
	@mkdir -p runs && rm -f runs/reliability.jsonl
	@$(WITH_VENV) $(IN_PARALLEL) -m slow tests --reliability-record "$(CURDIR)/runs/reliability.jsonl" $(PYTEST_ARGS)
	@$(if $(PYTEST_ARGS),,$(WITH_VENV) python scripts/reliability.py runs/reliability.jsonl)

.PHONY: lint
lint: setup ## ruff, the English of docstrings and comments, and the generated tables of the documents
	@$(WITH_VENV) ruff check .
	@$(WITH_VENV) ruff format --check .
	@$(WITH_VENV) python scripts/prose.py
	@$(WITH_VENV) wean-evaluate tables README.md docs/*.md examples/*/README.md --check
	@$(WITH_VENV) python scripts/replication.py --check
	@$(WITH_VENV) python scripts/doc_tables.py --check
	@$(WITH_VENV) python scripts/diagrams.py --check

.PHONY: typecheck
typecheck: setup ## mypy, strict, on what pyproject.toml lists
	@$(WITH_VENV) mypy

.PHONY: shellcheck
shellcheck: setup ## shellcheck on every shell script
	@find . -path ./.git -prune -o -path ./.venv -prune -o -path ./runs -prune -o -path ./build -prune -o \
	  -type f \( -name '*.sh' -o -path ./.ci/run \) -print0 | $(WITH_VENV) xargs -0 shellcheck --external-sources

.PHONY: docs
docs: setup ## build the documentation site in build/site and check links and page widths (warnings are errors)
	@$(WITH_VENV) NO_MKDOCS_2_WARNING=1 mkdocs build --strict --quiet
	@$(WITH_VENV) python scripts/check_site.py build/site

.PHONY: wheel-check
wheel-check: setup ## check that --user-dir finds the installed package from any folder
	@bash scripts/check_wheel.sh

.PHONY: format
format: setup ## format the code with ruff and apply its safe fixes
	@$(WITH_VENV) ruff check --fix-only .
	@$(WITH_VENV) ruff format .

.PHONY: benchmark
benchmark: ## list the benchmarks: one command each
	@ls -1 benchmarks/*.py benchmarks/*.sh benchmarks/README.md 2>/dev/null || echo "There is no benchmark yet."

.PHONY: clean
clean: ## remove caches and build outputs; .venv and runs/ stay
	@rm -rf build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis outputs *.egg-info
	@find . -path ./.git -prune -o -path ./.venv -prune -o -name __pycache__ -type d -prune -exec rm -rf {} +
