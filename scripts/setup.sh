#!/usr/bin/env bash
# Make .venv and install what requirements.lock pins, then the project itself (editable).
# Does nothing, at once, when .venv already holds exactly that. PYTHON=... picks the interpreter.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

venv=.venv
stamp=$venv/.spillway-stamp
log=$venv/install.log

# The stamp holds what the environment was made from: a changed lock or a moved folder makes it stale.
key="$(cat requirements.lock pyproject.toml scripts/setup.sh | cksum) $PWD"
if [[ -f $stamp && "$(<"$stamp")" == "$key" ]]; then
    exit 0
fi

say() { printf 'setup: %s\n' "$*" >&2; }

# Version managers leave names on the PATH that do not run, so each candidate is asked, not only found.
is_recent() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; }

find_python() {
    local name
    if [[ -n ${PYTHON:-} ]]; then
        is_recent "$PYTHON" && command -v "$PYTHON" && return
        say "PYTHON=$PYTHON is not a Python 3.11 or newer."
        return 1
    fi
    for name in python3 python3.13 python3.12 python3.11; do
        is_recent "$name" && command -v "$name" && return
    done
    say "Spillway needs Python 3.11 or newer; python3 here is $(python3 --version 2>&1 || echo 'not installed')."
    say "  Debian, Ubuntu:  apt-get install python3.11 python3.11-venv   (or a newer one)"
    say "  Fedora:          dnf install python3.12"
    say "  macOS:           brew install python@3.12"
    say "If it is in an unusual place: make <target> PYTHON=/path/to/python3.12"
    return 1
}

# The scripts of an environment hold its path: one that was moved along with its folder is made anew.
if ! is_recent $venv/bin/python || ! grep -qF "$PWD/$venv/bin/" $venv/bin/pip 2>/dev/null; then
    python=$(find_python)
    say "making $venv with $("$python" --version) ($python)"
    rm -rf $venv
    if ! problem=$("$python" -m venv $venv 2>&1); then
        rm -rf $venv
        if ! "$python" -c 'import ensurepip' >/dev/null 2>&1; then
            version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
            say "$python cannot make a virtual environment: its venv module is not installed."
            say "  Debian, Ubuntu:  apt-get install python3-venv   (or python$version-venv)"
        else
            say "$problem"
        fi
        exit 1
    fi
fi

# One line a package on a terminal, three lines in a log; everything pip says goes to $log.
progress() {
    local tty=0
    [[ -t 2 ]] && tty=1
    awk -v tty=$tty -v total="$(grep -c '^[A-Za-z0-9].*==' requirements.lock)" '
        function show(text) { printf "\r\033[K       %s", text; fflush() }
        /^Collecting /              { n++; if (tty) show(n " of about " total ": " $2) }
        /^Building wheels.*pyspark/ { if (tty) show("unpacking Spark"); else print "       unpacking Spark" }
        /^Installing collected.*,/  { if (tty) show("copying into .venv"); else print "       copying into .venv" }
        END                         { if (tty) printf "\r\033[K" }
    ' >&2
}

install() {
    if ! $venv/bin/python -m pip install --disable-pip-version-check --no-input "$@" 2>&1 | tee -a $log | progress; then
        say "pip failed; its last words (all of them are in $log):"
        tail -n 15 $log >&2
        exit 1
    fi
}

: >$log
begin=$SECONDS
if [[ -f $stamp ]]; then
    say "the lock file or the project changed: bringing $venv up to date"
else
    say "installing the pinned packages; Spark alone is 450 MB, so the first time takes a minute or two"
fi
install --require-hashes --requirement requirements.lock
install --no-deps --no-build-isolation --editable .
printf '%s' "$key" >$stamp
say "ready after $((SECONDS - begin)) s"
