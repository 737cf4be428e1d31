#!/bin/sh
# The wheel and the sdist from a clean folder: installed, used and removed, by each Python at hand and by the oldest and
# the newest numpy. usage: smoke.sh PYTHON[:NUMPY] ...   (NUMPY as pip has it: 1.26.*)
set -eu
top=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export XDG_CACHE_HOME="$work/cache" PIP_DISABLE_PIP_VERSION_CHECK=1
unset NUMBA_CACHE_DIR

git -C "$top" archive HEAD | (mkdir "$work/source" && tar -x -C "$work/source")
"${1%%:*}" -m venv "$work/build"
"$work/build/bin/pip" install -q build
"$work/build/bin/python" -m build --outdir "$work/dist" "$work/source" > "$work/log" 2>&1 || { cat "$work/log"; exit 1; }

check() {
    cd "$work"
    printf 'a b a\nb a b b\n' > text.txt
    "$1/bin/lmtk" ngram-count -text text.txt -order 2 -wbdiscount -lm model.arpa
    "$1/bin/lmtk" ppl -lm model.arpa text.txt | grep -q 'ppl= 3.166447 ppl1= 4.401421'
    "$1/bin/lmtk" nplm-train -text text.txt -order 2 -hidden 2 -features 2 -epochs 1 -threads 1 -lm model.bin
    "$1/bin/lmtk" ppl -lm model.bin text.txt | grep -q 'ppl= 2.8'
    "$1/bin/python" -c 'import lmtk; assert abs(lmtk.load("model.arpa").score("a b") + 1.60206) < 1e-6'
    test -f "$1/share/man/man1/lmtk-ppl.1"
    "$("$1/bin/lmtk" -bin)/ngram" -lm model.arpa -ppl text.txt | grep -q 'ppl= 3.166447 '
    "$1/bin/pip" uninstall -q -y lmtk-toolkit
    if (cd / && "$1/bin/python" -c 'import lmtk') 2> /dev/null; then
        echo "lmtk can still be imported after pip uninstall" >&2
        exit 1
    fi
}

for one; do
    python=${one%%:*} numpy=${one#"$python"}
    command -v "$python" > /dev/null && "$python" -c '' 2> /dev/null || { echo "no $python here"; continue; }
    "$python" -m venv "$work/venv"
    "$work/venv/bin/pip" install -q "$work"/dist/*.whl ${numpy:+"numpy==${numpy#:}"}
    check "$work/venv"
    "$work/venv/bin/pip" install -q "$work"/dist/*.tar.gz
    check "$work/venv"
    echo "$("$python" -V)${numpy:+, numpy ${numpy#:}}: wheel and sdist work, and leave nothing behind"
    rm -rf "$work/venv"
done
