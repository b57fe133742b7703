# Every target works on a fresh clone with Python ≥ 3.11 and Node ≥ 20: it makes what it needs.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
CLIENT := client-vscode
MODULES := $(CLIENT)/node_modules/.package-lock.json
FOREIGN := tests/e2e/node/node_modules/.package-lock.json
NPM_INSTALL := npm ci --ignore-scripts --no-audit --no-fund --loglevel=error

# Installs what a lock file names, and nothing whose hash it does not have: with the machine's uv, or uv's own wheel.
# pip does it where there is neither, and where uv does not reach the package index: it has settings of its own.
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check install
define install
	@if uv --version >/dev/null 2>&1; then tool=uv; \
	elif $(PIP) --only-binary :all: --require-hashes --requirement requirements/uv.txt; then tool=$(BIN)/uv; fi; \
	{ test -n "$$tool" && $$tool pip install --quiet --python $(BIN)/python $(1); } || $(PIP) $(1)
endef

.PHONY: demo help test lint types contracts test-python test-client canary servers recordings e2e e2e-editors bench eval chaos generate packages docs media lock vsix clean

demo: $(READY) ## a real turn over stdio with the embedded model; needs no key
	$(BIN)/pilotfish demo

# The text after `##` of every target.
help: ## this list
	@sed -n 's/^\([a-z0-9-]*\):.*## \(.*\)/\1|\2/p' Makefile | while IFS='|' read -r target text; do printf '%-14s %s\n' "$$target" "$$text"; done

# What has one process runs two at a time; the Python tests have two workers of their own.
test: $(READY) $(MODULES) $(FOREIGN) ## everything that needs no editor: the five targets below
	$(MAKE) --no-print-directory --jobs=2 --output-sync=target types test-client lint contracts
	$(MAKE) --no-print-directory test-python

$(READY): pyproject.toml requirements/dev.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(call install,--require-hashes --requirement requirements/dev.txt)
	$(call install,--no-deps --no-build-isolation --editable .)
	touch $(READY)

$(MODULES): $(CLIENT)/package-lock.json
	cd $(CLIENT) && $(NPM_INSTALL)
	touch $(MODULES)

$(FOREIGN): tests/e2e/node/package-lock.json
	cd tests/e2e/node && $(NPM_INSTALL)
	touch $(FOREIGN)

lint: $(READY) ## ruff: rules and format
	$(BIN)/ruff check server tests
	$(BIN)/ruff format --check server tests

types: $(READY) ## pyright, strict
	$(BIN)/pyright

contracts: $(READY) ## which package may import which (import-linter)
	$(BIN)/lint-imports

test-python: $(READY) $(FOREIGN) ## the Python tests
	$(BIN)/pytest --numprocesses=2 --dist=loadfile -m 'not editors and not servers and not recordings'

test-client: $(MODULES) ## types, rules and unit tests of the VS Code extension
	cd $(CLIENT) && npm run --silent check && npm test --silent

# The tests against the newest releases of the libraries, upper bounds ignored: what will break, before users see it.
CANARY := .canary
CANARY_LIBRARIES := pydantic-ai-slim[openai,anthropic,google,mcp] openai anthropic google-genai httpx2 pydantic pygls
canary: ## the Python tests against the newest releases of the libraries
	rm -rf $(CANARY)
	$(PYTHON) -m venv $(CANARY)
	$(CANARY)/bin/python -m pip install --quiet --disable-pip-version-check --editable '.[dev,anthropic,google,mcp]'
	$(CANARY)/bin/python -m pip install --quiet --disable-pip-version-check --upgrade --upgrade-strategy eager $(CANARY_LIBRARIES)
	-$(CANARY)/bin/python -m pip check
	$(CANARY)/bin/pytest --numprocesses=2 --dist=loadfile tests/engine tests/chaos tests/lsp tests/test_private_names.py

# Real servers of models and of MCP, in environments of their own: they must not enter our locked packages.
SERVERS := .servers
servers: $(READY) $(FOREIGN) ## the tests against real servers of models and of MCP
	test -x $(SERVERS)/litellm/bin/litellm || { $(PYTHON) -m venv $(SERVERS)/litellm && \
		$(SERVERS)/litellm/bin/python -m pip install --quiet --disable-pip-version-check 'litellm[proxy]'; }
	test -x $(SERVERS)/mcp/bin/mcp-server-git || { $(PYTHON) -m venv $(SERVERS)/mcp && \
		$(SERVERS)/mcp/bin/python -m pip install --quiet --disable-pip-version-check mcp-server-git mcp-server-time; }
	test -d $(SERVERS)/llama || { $(PYTHON) -m venv $(SERVERS)/llama && \
		$(SERVERS)/llama/bin/python -m pip install --quiet --disable-pip-version-check xllamacpp; }
	$(BIN)/pytest tests/e2e -m servers

# What real providers answered, as other projects recorded it: fetched from the package index, none is kept here.
# `make recordings FROM=folder` adds a folder of recordings, for example a checkout of pydantic-ai, which has the most.
RECORDINGS := .recordings
recordings: $(READY) ## recorded answers of real providers against stock pydantic-ai
	$(call install,--require-hashes --requirement requirements/recordings.txt)
	$(BIN)/python -m tests.recordings.fetch $(RECORDINGS)
	PILOTFISH_RECORDINGS=$(RECORDINGS)$(if $(FROM),:$(FROM)) $(BIN)/pytest --numprocesses=2 tests/recordings

# The packaged extension in a real VS Code, driven by a browser. Installs Chromium with apt when it is missing.
e2e: vsix e2e-editors ## the packaged extension in a real VS Code, and e2e-editors
	cd $(CLIENT) && npm run --silent e2e

# The clients in real editors on real screens. Installs Neovim from PyPI, Emacs, Helix and tmux with apt when they are missing.
e2e-editors: $(READY) ## the clients in a real Neovim (three versions), Emacs and Helix, and acpx
	tests/e2e/install_editors.sh
	$(BIN)/pytest tests/e2e -m editors

# `make bench COMMIT=1` writes the figures down (server/BENCHMARKS.md): on a machine with nothing else to do.
# `make bench PARTS=growth` measures how costs grow with turns, sessions, files and sizes.
bench: $(READY) ## the benchmarks, compared with the committed figures
	$(BIN)/python -m tests.bench $(PARTS) $(if $(COMMIT),--commit)

# Small real tasks, judged by their results: writes EVALS.md. `make eval MODELS='local:/path/to/file.gguf anthropic:…'`.
eval: $(READY) ## small real tasks through the real server; writes EVALS.md
	$(BIN)/python -m tests.eval $(MODELS)

# Hours: every fault many times, a thousand crashes, ten million inputs. `make chaos SEED=7` repeats a run.
chaos: SEED := $(or $(SEED),$(shell od -An -N3 -tu4 /dev/urandom | tr -d ' '))
chaos: $(READY) ## the long form of the fault and fuzz tests; takes hours
	@echo "seed $(SEED)"
	$(call install,--require-hashes --requirement requirements/fuzz.txt)
	PILOTFISH_LONG=1 PILOTFISH_SEED=$(SEED) $(BIN)/pytest tests/chaos tests/store tests/engine/turn/test_cancel.py --timeout=3600
	PILOTFISH_LONG=1 $(BIN)/pytest tests -m hypothesis --ignore=tests/chaos --ignore=tests/store --numprocesses=2 --dist=worksteal --timeout=3600
	$(BIN)/python -m tests.chaos.fuzz --executions 10000000 --seed $(SEED)

# From server/pilotfish/protocol/wire, and the program's own tables of settings, commands, tools, providers and ACP.
generate: $(READY) ## writes the committed files that are generated
	$(BIN)/python -m pilotfish.protocol.typescript
	$(BIN)/python -m pilotfish.protocol.reference
	$(BIN)/python -m pilotfish.engine.model.catalog.provider_table
	$(BIN)/python -m pilotfish.acp.method_table
	$(BIN)/python -m pilotfish.cli.reference

# The wheel, installed the ways people do, with every Python from 3.11 on that is here. Minutes; needs the package index.
packages: $(READY) ## installs the wheel with pip, uv and pipx, and plays the demo out of each
	$(BIN)/python -m tests.packages

# The site of the documents: .site/html/index.html. A broken link or anchor fails the build.
SITE := .site
docs: $(READY) ## builds the site of the documents, strictly: .site/html
	test -x $(SITE)/venv/bin/zensical || { $(PYTHON) -m venv $(SITE)/venv && \
		$(SITE)/venv/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes --requirement requirements/docs.txt; }
	$(BIN)/python -m tests.docs.site $(SITE)/pages
	cp zensical.toml $(SITE)/
	cd $(SITE) && venv/bin/zensical build --clean --strict

# The pictures of the READMEs and the site, taken in the real VS Code of the e2e tests.
media: vsix ## takes the pictures of the documents in a real VS Code
	cd $(CLIENT) && test/e2e/install.sh && PATH="$(CURDIR)/.e2e/bin:$$PATH" npm run --silent pictures

# Writes the lock files from the ranges in pyproject.toml: every platform, hashes, no address of an index. Needs uv.
# `make lock UPGRADE=--upgrade` takes the newest releases.
COMPILE = uv pip compile --quiet --no-config --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header --no-annotate $(UPGRADE)
# What an installation without a choice of its own should have: the extension's, and the one that is tested.
LOCKED_EXTRAS := --extra anthropic --extra google --extra mcp
lock: ## writes requirements/*.txt from the ranges in pyproject.toml; needs uv
	$(COMPILE) pyproject.toml $(LOCKED_EXTRAS) --output-file requirements/runtime.txt
	$(COMPILE) pyproject.toml $(LOCKED_EXTRAS) --extra dev --constraints requirements/runtime.txt --output-file requirements/dev.txt
	printf 'atheris==3.0.0 ; python_version < "3.12"\natheris>=3.1,<4 ; python_version >= "3.12"\n' | $(COMPILE) --no-deps - --output-file requirements/fuzz.txt
	echo 'pyyaml>=6,<7' | $(COMPILE) --no-deps - --output-file requirements/recordings.txt
	echo 'xllamacpp>=2026.10,<2027' | $(COMPILE) --no-deps - --output-file requirements/local.txt
	echo uv | $(COMPILE) - --output-file requirements/uv.txt
	echo 'zensical>=0.0.73,<0.1' | $(COMPILE) - --output-file requirements/docs.txt

# The VS Code extension with the server's wheel and its locked dependencies inside, and what both are made of (CycloneDX).
vsix: $(READY) $(MODULES) ## the VS Code extension with the server inside: client-vscode/pilotfish.vsix
	rm -f $(CLIENT)/pilotfish-*.whl
	$(BIN)/python -m hatchling build -t wheel -d $(CLIENT)
	$(BIN)/cyclonedx-py requirements --output-reproducible --pyproject pyproject.toml --output-file $(CLIENT)/sbom-server.cdx.json requirements/runtime.txt
	cd $(CLIENT) && npm run --silent package

clean: ## removes everything that the targets made
	rm -rf .venv $(CANARY) $(SITE) $(RECORDINGS) .e2e build dist $(CLIENT)/node_modules $(CLIENT)/dist $(CLIENT)/*.whl $(CLIENT)/*.vsix $(CLIENT)/sbom-*.json
