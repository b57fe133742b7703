/** A fake Python that can only create environments, install uv or the server into them, and run the server. */

import { chmod, writeFile } from 'node:fs/promises';
import path from 'node:path';

export interface Python {
  version: string;
  name?: string;
  /** the error when an environment is created */
  venv?: string;
  /** the error when packages are installed */
  fails?: string;
  /** it has no pip of its own; its environments have one */
  noPip?: boolean;
  /** the error when uv is installed */
  noUv?: string;
  /** the program that the installed server runs */
  server?: string;
  /** the file that the arguments of every call are added to */
  asked?: string;
}

/** Writes the fake Python into a folder of the PATH. Its environments contain a copy of it. */
export async function writePython(folder: string, python: Python): Promise<void> {
  const {
    version,
    name = 'python3',
    venv,
    fails,
    noUv,
    noPip = false,
    server = '/bin/true',
    asked = '/dev/null',
  } = python;
  const say = (words: string) => `echo '${words}' >&2; exit 1`;
  const packages = fails === undefined ? ':' : say(fails);
  const script = `#!/bin/sh
PATH=/usr/local/bin:/usr/bin:/bin
for last; do :; done
echo "$PWD: $*" >> ${asked}
case "$*" in
  *version_info*) echo ${version} ;;
  "-I -m venv "*) ${venv === undefined ? 'mkdir -p "$last/bin" && cp "$0" "$last/bin/python"' : say(venv)} ;;
  "-I -m pip --version") ${noPip ? say('No module named pip') : ':'} ;;
  "-I -m pip install "*uv.txt)
    ${noUv === undefined ? ':' : say(noUv)}
    place=$(dirname "$0")
    case "$*" in *"--target "*) place=$(echo "$*" | sed 's/.*--target \\([^ ]*\\).*/\\1/')/bin; mkdir -p "$place" ;; esac
    printf '#!/bin/sh\\necho "$PWD: uv $*" >> ${asked}\\n%s\\n' "${packages}" > "$place/uv"
    chmod +x "$place/uv" ;;
  "-I -m pip install "*) ${packages} ;;
  "-I -m pilotfish "*) shift 3; exec ${server} "$@" ;;
  *) ${say('not known to the fake Python')} ;;
esac
`;
  await writeFile(path.join(folder, name), script);
  await chmod(path.join(folder, name), 0o755);
}
