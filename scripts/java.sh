#!/usr/bin/env bash
# Print the home of a Java that Spark 4 runs on (17 or newer), for use as JAVA_HOME.
# Looks at JAVA_HOME, the PATH and the usual places. Where there is none: installs one if that needs no
# question (root with apt-get), otherwise says how to get one and fails.
set -euo pipefail

oldest=17
too_old=()

say() { printf 'java: %s\n' "$*" >&2; }

# Major version of the Java in home $1: from its release file if it has one, else by starting it.
major_of() {
    local text=
    [[ -x $1/bin/java ]] || return 1
    if [[ -r $1/release ]]; then
        text=$(sed -n 's/^JAVA_VERSION="\{0,1\}\([0-9._]*\).*/\1/p' "$1/release")
    fi
    if [[ -z $text ]]; then
        text=$("$1/bin/java" -version 2>&1 | sed -n 's/.* version "\([0-9._]*\).*/\1/p')
    fi
    text=${text#1.} # Java 8 calls itself 1.8
    text=${text%%[._]*}
    [[ $text =~ ^[0-9]+$ ]] && printf '%s\n' "$text"
}

# The home behind the java of the PATH. It is asked, because it may be a shim or macOS's placeholder.
home_on_path() {
    command -v java >/dev/null || return 0
    local real
    real=$(readlink -f "$(command -v java)" 2>/dev/null || true)
    if [[ -n $real && -r ${real%/bin/java}/release ]]; then
        printf '%s\n' "${real%/bin/java}"
    else
        java -XshowSettings:properties -version 2>&1 | sed -n 's/^ *java\.home = //p'
    fi
}

candidates() {
    [[ -n ${JAVA_HOME:-} ]] && printf '%s\n' "$JAVA_HOME"
    home_on_path
    if [[ -x /usr/libexec/java_home ]]; then
        /usr/libexec/java_home -v "$oldest+" 2>/dev/null || true
    fi
    local place
    for place in /usr/lib/jvm/*17* /usr/lib/jvm/*21* /usr/lib/jvm/* /opt/java/* /usr/java/* \
        /opt/homebrew/opt/openjdk* /usr/local/opt/openjdk* \
        "$HOME"/.sdkman/candidates/java/* "$HOME"/.jdks/* "$HOME"/.jdk/*; do
        printf '%s\n' "$place"
    done
}

find_java() {
    local home major
    while IFS= read -r home; do
        major=$(major_of "$home") || continue
        if ((major >= oldest)); then
            if [[ -n ${JAVA_HOME:-} && $home != "$JAVA_HOME" ]]; then
                say "JAVA_HOME=$JAVA_HOME is not a Java $oldest or newer; using $home (Java $major)"
            fi
            printf '%s\n' "$home"
            return 0
        fi
        too_old+=("$home (Java $major)")
    done < <(candidates)
    return 1
}

install_java() {
    [[ $(id -u) == 0 ]] && command -v apt-get >/dev/null || return 1
    say "no Java $oldest or newer found: installing a headless one with apt-get"
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq >&2 || return 1
    local version
    for version in 17 21; do # a release has the one or the other
        if apt-get install -y -qq --no-install-recommends "openjdk-$version-jre-headless" >&2; then
            return 0
        fi
    done
    return 1
}

find_java && exit 0
install_java && find_java && exit 0

if ((${#too_old[@]})); then
    say "Spark needs Java $oldest or newer; too old: $(printf '%s, ' "${too_old[@]}" | sed 's/, $//')"
else
    say "Spark needs Java $oldest or newer, and none was found."
fi
say "  Debian, Ubuntu:  sudo apt-get install openjdk-17-jre-headless   (or openjdk-21-jre-headless)"
say "  Fedora:          sudo dnf install java-21-openjdk-headless"
say "  macOS:           brew install openjdk@17"
say "If it is in an unusual place: export JAVA_HOME=/path/to/java"
say "What needs no Java: make test-core, make check"
exit 1
