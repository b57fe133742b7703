/** A fake Python that can only create an environment and install a wheel, or fail at it. */

import { chmod, writeFile } from 'node:fs/promises';
import path from 'node:path';

export interface Python {
  version: string;
  name?: string;
  /** the error when an environment is created */
  venv?: string;
  /** the error when the wheel is installed */
  fails?: string;
  /** the program that the installed `pilotfish` runs */
  server?: string;
}

/** Writes the fake Python into a folder of the PATH. Its environments contain a copy of it, and the file `asked` with pip's arguments. */
export async function writePython(folder: string, python: Python): Promise<void> {
  const { version, name = 'python3', venv, fails, server = '/bin/true' } = python;
  const say = (words: string) => `echo '${words}' >&2; exit 1`;
  const script = `#!/bin/sh
PATH=/usr/local/bin:/usr/bin:/bin
case "$*" in
  *version_info*) echo ${version} ;;
  "-m venv "*) ${venv === undefined ? 'mkdir -p "$3/bin" && cp "$0" "$3/bin/python"' : say(venv)} ;;
  "-m pip install "*)
    ${fails === undefined ? ':' : say(fails)}
    bin=$(dirname "$0")
    echo "$@" > "$bin/../asked"
    printf '#!/bin/sh\\nexec ${server} "$@"\\n' > "$bin/pilotfish"
    chmod +x "$bin/pilotfish" ;;
esac
`;
  await writeFile(path.join(folder, name), script);
  await chmod(path.join(folder, name), 0o755);
}
