#!/bin/sh
# Make the environment that the scripts beside this one run in, and print its python.
#
#   scripts/env.sh [LOCK…]     default: requirements.lock
#
# Needs Python >= 3.11; uses uv where it is present, else venv and pip. The environment is
# .cache/env, or .cache/env-dev with a second lock: making one leaves the other alone, and what
# runs from it. made-from in it says what it was made from, so that a second call costs nothing.
# Narration goes to standard error.
set -eu

root=$(cd "$(dirname "$0")/.." && pwd)
env=$root/.cache/env
cd "$root"
[ $# -gt 0 ] || set -- requirements.lock
[ $# -eq 1 ] || env=$root/.cache/env-dev
stamp=$env/made-from

say() { printf '%s: %s\n' "${ENV_FOR:-scripts/env.sh}" "$*" >&2; }
die() { say "$*"; exit 5; }

is_new_enough() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; }

find_python() {
    for name in ${PYTHON:-} python3 python3.14 python3.13 python3.12 python3.11 python; do
        if command -v "$name" >/dev/null 2>&1 && is_new_enough "$name"; then
            "$name" -c 'import sys; print(sys.executable)'
            return
        fi
    done
}

# One line per thing that the environment was made from, with a checksum of its content.
wanted() {
    for file in pyproject.toml "$@"; do
        if [ -f "$file" ]; then printf '%s %s\n' "$file" "$(cksum <"$file")"; fi
    done
}

is_up_to_date() {
    [ -x "$env/bin/python" ] && [ -f "$stamp" ] && is_new_enough "$env/bin/python" || return 1
    wanted "$@" | while IFS= read -r line; do grep -qxF "$line" "$stamp" || return 1; done
}

with_uv() { command -v uv >/dev/null 2>&1; }

make_env() {
    python=$(find_python)
    if with_uv; then
        say "making $env with uv"
        uv venv --quiet --clear --python "${python:->=3.11}" "$env"
        return
    fi
    [ -n "$python" ] || die "there is no Python >= 3.11 on PATH: install one, or say PYTHON=/path/to/it"
    say "making $env with $python and pip"
    rm -rf "$env"
    # Some distributions leave ensurepip out; their own pip can fill an environment, too.
    "$python" -m venv "$env" >/dev/null 2>&1 ||
        { rm -rf "$env" && "$python" -m venv --without-pip "$env" &&
            "$python" -m pip --version >/dev/null 2>&1; } ||
        die "$python has neither ensurepip nor pip: install it (Debian: apt install python3-venv)"
}

install() {
    if with_uv; then
        uv pip install --quiet --python "$env/bin/python" "$@"
    elif "$env/bin/python" -m pip --version >/dev/null 2>&1; then
        "$env/bin/python" -m pip install --quiet --disable-pip-version-check "$@"
    else
        "$(find_python)" -m pip --python "$env/bin/python" install --quiet \
            --disable-pip-version-check "$@"
    fi || die "installing $* failed: is a package registry within reach?"
}

install_project() {
    # The build needs a setuptools that can make wheels: the lock's, else one is fetched for it.
    if "$env/bin/python" -c 'import setuptools.command.bdist_wheel' 2>/dev/null; then
        install --no-deps --no-build-isolation --editable .
    else
        install --no-deps --editable .
    fi
}

if ! is_up_to_date "$@"; then
    make_env
    locked=
    for lock in "$@"; do
        if [ -f "$lock" ]; then
            say "installing what $lock names"
            install --require-hashes --requirement "$lock"
            locked=yes
        fi
    done
    if [ -z "$locked" ]; then
        say "there is no $1: installing the newest versions that pyproject.toml allows"
        install --editable .
    else
        install_project
    fi
    wanted "$@" >"$stamp.new"
    mv "$stamp.new" "$stamp"
    say "done; it is used again until pyproject.toml or a lock changes"
fi
printf '%s\n' "$env/bin/python"
