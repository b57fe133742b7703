"""The commands that only read, and the flags with which they still only read.

Flags are listed in full. A command with an abbreviated or unlisted flag needs approval. Flags that run another program,
write a file, follow a file forever or read file names from a file are left out on purpose. `arguments.py` explains the
notation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pilotfish.policy.shell import argument_checks as judges
from pilotfish.policy.shell.arguments import Doubt, Read, Spec, check, spec
from pilotfish.policy.shell.git_commands import git


def read_only(words: Sequence[str]) -> Read | Doubt:
    """Return the paths that a command reads, or why it may do more than read."""
    name, rest = words[0], words[1:]
    if tuple(words) in EXACT:
        return Read()
    if name in SPECIAL:
        return SPECIAL[name](rest)
    known = TABLE.get(name)
    if known is None:
        return Doubt(f"{name} may change files or run other programs")
    return check(name, known, rest)


_SUM = spec("-b -t -z --tag --binary --text --zero", judges.files)
_GREP = spec(
    "-r -R -n -i -l -L -c -v -w -x -o -h -H -s -q -E -F -G -P -a -I -z -Z -b -T -y -A# -B# -C# -m# -e$ -f@ "
    "-d$ -D$ --recursive --dereference-recursive --line-number --ignore-case --no-ignore-case "
    "--files-with-matches --files-without-match --count --invert-match --word-regexp --line-regexp "
    "--only-matching --no-filename --with-filename --no-messages --quiet --silent --extended-regexp "
    "--fixed-strings --basic-regexp --perl-regexp --text --null --byte-offset --initial-tab "
    "--after-context# --before-context# --context# --max-count# --regexp$ --file@ --include$ --exclude$ "
    "--exclude-dir$ --exclude-from@ --color? --colour? --binary-files$ --line-buffered --label$ "
    "--null-data",
    judges.search,
    digits=True,
)

TABLE: dict[str, Spec] = {
    "ls": spec(
        "-l -a -A -h -t -r -S -1 -d -F -R -i -s -p -n -G -g -o -k -x -C -m -u -c -U -X -L -H -Q -q -b -B "
        "-N -v -f -I$ -w# --all --almost-all --human-readable --recursive --color? "
        "--group-directories-first --time-style$ --sort$ --full-time --reverse --size --inode --directory "
        "--classify? --no-group --hide$ --ignore$ --format$ --time$ --si",
        judges.names,
    ),
    "cat": spec(
        "-n -b -s -A -E -T -v -e -t -u --number --number-nonblank --squeeze-blank --show-all --show-ends "
        "--show-tabs --show-nonprinting",
        judges.files,
    ),
    "head": spec("-n# -c# -q -v -z --lines# --bytes# --quiet --silent --verbose", judges.files, digits=True),
    "tail": spec("-n# -c# -q -v -z --lines# --bytes# --quiet --silent --verbose", judges.files, digits=True),
    "wc": spec("-l -w -c -m -L --lines --words --bytes --chars --max-line-length", judges.files),
    "nl": spec("-b$ -n$ -w# -s$ -v# -i#", judges.files),
    "tac": spec("-b -r -s$", judges.files),
    "rev": spec("", judges.files),
    "fold": spec("-w# -s -b --width# --spaces", judges.files),
    "expand": spec("-t$ -i", judges.files),
    "unexpand": spec("-t$ -a", judges.files),
    "cut": spec(
        "-d$ -f$ -c$ -b$ -s -z -n --delimiter$ --fields$ --characters$ --bytes$ --only-delimited "
        "--complement --output-delimiter$",
        judges.files,
    ),
    "paste": spec("-d$ -s -z --delimiters$ --serial", judges.files),
    "tr": spec("-d -s -c -C -t --delete --squeeze-repeats --complement --truncate-set1", judges.texts),
    "sort": spec(
        "-r -n -u -k$ -t$ -f -h -V -b -d -i -g -M -R -s -c -C -z -m --reverse --numeric-sort --unique "
        "--key$ --field-separator$ --ignore-case --human-numeric-sort --version-sort "
        "--ignore-leading-blanks --dictionary-order --general-numeric-sort --month-sort --random-sort "
        "--stable --check? --zero-terminated --merge",
        judges.files,
    ),
    "uniq": spec(
        "-c -d -D -u -i -f# -s# -w# -z --count --repeated --unique --ignore-case --skip-fields# "
        "--skip-chars# --check-chars# --all-repeated? --zero-terminated",
        judges.one_file,
        ordered=True,
    ),
    "comm": spec("-1 -2 -3 -i -z --check-order --nocheck-order --total --output-delimiter$", judges.files),
    "cmp": spec("-s -l -b -n# --silent --quiet --verbose --print-bytes --bytes#", judges.files),
    "diff": spec(
        "-u -r -q -N -w -b -B -i -y -s -a -c -e -p -d -E -Z -U# -C# -W# -x$ -I$ --unified? --context? "
        "--brief --recursive --side-by-side --width# --color? --strip-trailing-cr --ignore-all-space "
        "--ignore-space-change --ignore-blank-lines --ignore-case --new-file --report-identical-files "
        "--text --exclude$ --suppress-common-lines --minimal --label$ --show-c-function --no-dereference",
        judges.diff,
    ),
    "grep": _GREP,
    "rg": spec(
        "-n -N -i -S -s -l -c -v -w -x -o -H -I -F -P -U -a -q -0 -u -. -A# -B# -C# -m# -M# -d# -e$ -f@ "
        "-g$ -t$ -T$ -r$ -V --files --files-with-matches --files-without-match --hidden --no-ignore "
        "--no-ignore-vcs --json --stats --no-stats --sort$ --sortr$ --max-depth# --max-columns# "
        "--max-count# --max-filesize$ --heading --no-heading --color$ --colors$ --line-number "
        "--no-line-number --count --count-matches --ignore-case --smart-case --case-sensitive "
        "--fixed-strings --word-regexp --line-regexp --multiline --multiline-dotall --only-matching "
        "--context# --after-context# --before-context# --pcre2 --type$ --type-not$ --type-list --glob$ "
        "--iglob$ --regexp$ --file@ --trim --vimgrep --column --no-column --no-messages --replace$ "
        "--no-config --null --text --quiet --invert-match --with-filename --no-filename --passthru "
        "--include-zero --version --crlf --unrestricted --byte-offset --one-file-system "
        "--context-separator$ --max-columns-preview --threads# -j# --engine$ --no-unicode",
        judges.ripgrep,
    ),
    "fd": spec(
        "-e$ -t$ -H -I -u -d# -a -p -g -F -i -s -E$ -0 -1 -c$ --extension$ --type$ --hidden --no-ignore "
        "--max-depth# --min-depth# --absolute-path --full-path --glob --fixed-strings --ignore-case "
        "--case-sensitive --exclude$ --color$ --print0 --max-results#",
        judges.pattern_then_names,
    ),
    "tree": spec(
        "-L# -a -d -f -s -h -D -C -n -i -F -r -t -u -g -p -J -X --dirsfirst --prune --noreport "
        "--du --gitignore --charset$ --filelimit# --sort$",
        judges.names,
    ),
    "stat": spec("-c$ -f -L -t -x --format$ --printf$ --terse --file-system --dereference", judges.files),
    "file": spec(
        "-b -i -I -L -h -k --brief --mime --mime-type --mime-encoding --dereference --no-dereference", judges.files
    ),
    "du": spec(
        "-s -h -a -c -k -m -b -x -d# -t$ --max-depth# --summarize --human-readable --total --apparent-size "
        "--exclude$ --all --one-file-system --si",
        judges.names,
    ),
    "df": spec("-h -T -i -k -m -a -l -P -H --human-readable --print-type --inodes --all --local --total", judges.names),
    "pwd": spec("-L -P", judges.none),
    "true": spec("", judges.texts),
    "false": spec("", judges.texts),
    "date": spec(
        "-u -R -I -d$ -r@ --date$ --utc --universal --iso-8601? --rfc-3339$ --rfc-email --reference@",
        judges.date,
        ordered=True,
    ),
    "whoami": spec("", judges.none),
    "id": spec("-u -g -G -n -r --user --group --groups --name --real", judges.texts),
    "groups": spec("", judges.texts),
    "logname": spec("", judges.none),
    "uname": spec(
        "-a -s -r -m -n -p -o -v -i --all --kernel-name --kernel-release --machine --operating-system",
        judges.none,
    ),
    "hostname": spec("-f -s -i -I -d --fqdn --short", judges.none),
    "arch": spec("", judges.none),
    "nproc": spec("--all", judges.none),
    "uptime": spec("-p -s --pretty --since", judges.none),
    "free": spec("-h -m -g -b -k -t -w --human --mega --giga --total --wide", judges.none),
    "lscpu": spec("", judges.none),
    "tty": spec("", judges.none),
    "which": spec("-a", judges.texts),
    "type": spec("-a -t -p -P -f", judges.texts),
    "basename": spec("-a -s$ -z --multiple --suffix$", judges.texts),
    "dirname": spec("-z", judges.texts),
    "realpath": spec(
        "-e -m -s -L -P -q -z --relative-to@ --relative-base@ --canonicalize-existing --no-symlinks", judges.files
    ),
    "readlink": spec("-f -e -m -n -q -s -v -z --canonicalize --canonicalize-existing --no-newline", judges.files),
    "md5sum": _SUM,
    "sha1sum": _SUM,
    "sha224sum": _SUM,
    "sha256sum": _SUM,
    "sha384sum": _SUM,
    "sha512sum": _SUM,
    "b2sum": _SUM,
    "cksum": spec("", judges.files),
    "shasum": spec("-a# -b -t", judges.files),
    "od": spec("-c -x -b -d -o -v -A$ -t$ -N# -j# -w?", judges.files),
    "hexdump": spec("-C -c -b -d -o -x -v -n# -s#", judges.files),
    "base64": spec("-d -D --decode -w# --wrap#", judges.one_file, ordered=True),
    "column": spec("-t -x -s$ -c#", judges.files),
    "seq": spec("-w -s$ -f$", judges.texts),
    "pgrep": spec("-l -a -f -x -u$ -n -o -c", judges.texts),
    "ss": spec("-t -l -n -p -u -a -4 -6 -s -e -o -i -x -H", judges.none),
    "sed": spec("-n -E -r -s -z -u -e$ --quiet --silent --expression$ --regexp-extended --sandbox", judges.sed),
    "awk": spec("-F$", judges.awk, ordered=True),
    "jq": spec(
        "-r -c -n -s -e -S -M -C -a -j -R --raw-output --compact-output --null-input --slurp --exit-status "
        "--sort-keys --monochrome-output --color-output --ascii-output --join-output --raw-input --tab "
        "--indent#",
        judges.jq,
    ),
}

SPECIAL: dict[str, Callable[[Sequence[str]], Read | Doubt]] = {
    "git": git,
    "find": judges.find,
    "echo": judges.echo,
    "printf": judges.printf,
    "command": judges.command,
    "test": judges.test,
    "[": judges.bracket,
    "ps": judges.ps,
    "sleep": judges.sleep,
    "cd": judges.cd,
}

EXACT = frozenset(
    tuple(line.split())
    for line in (
        "python --version", "python -V", "python3 --version", "python3 -V", "node --version", "node -v",
        "git --version", "git version", "bash --version", "gcc --version", "cc --version", "clang --version",
        "g++ --version", "make --version", "cmake --version", "java -version", "java --version",
        "docker --version", "ruby --version", "perl --version", "php --version", "rg --version", "jq --version",
        "curl --version", "locale", "locale -a", "sw_vers", "getconf ARG_MAX", "getconf _NPROCESSORS_ONLN",
        "date", "pwd",
    )
)  # fmt: skip
"""Complete command lines that only print what is installed."""
