#!/bin/sh
# Tries a bundle on your own pictures: own-pictures.sh PICTURES [DRAW] [OPTION...]
#
# PICTURES holds a folder of pictures (JPEG, PNG, WebP) for each thing. Five pictures of each are learned into a fresh
# state, and up to twenty others of each are classified. The script prints the share of right answers; "unknown" counts
# as wrong, whatever is said to be nearest. From three things on, answers are among these alone, as on a device; with
# `--answers all` they are among the classes of the bundle, too. Blurred pictures are taken.
#
# DRAW, a number, decides which pictures are drawn (default 1). Further options go to every call of `orco`, such as
# `--bundle models/everyday` or `--backbone int8`; none may contain spaces. ORCO names the program (default
# `cargo orco`).
set -eu
pictures=${1:?PICTURES: a folder that holds a folder of pictures for each thing}
shift
draw=1
case "${1:-}" in [0-9]*) draw=$1; shift ;; esac
orco=${ORCO:-cargo orco}
options=$*
set --
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' HUP INT TERM

number=0
for folder in "$pictures"/*/; do
    [ -d "$folder" ] || { echo "$pictures holds no folders; it needs one of pictures for each thing" >&2; exit 1; }
    number=$((number + 1))
    # In an order that follows from the draw and the pictures' names. Hidden files, and those that systems add, are left out.
    find -L "$(CDPATH='' cd -- "$folder" && pwd)" \( -name '.*' -o -name @eaDir -o -name __MACOSX \) -prune -o \
        \( -iname '*.jpg' -o -iname '*.jpeg' -o -iname '*.jfif' -o -iname '*.jpe' -o -iname '*.mpo' -o -iname '*.png' \
        -o -iname '*.webp' \) -print | while IFS= read -r file; do
        name=$(basename "$file")
        printf '%s %s\n' "$(printf '%s %s' "$draw" "$name" | sha256sum | cut -c 1-64)" "$file"
    done | sort | head -n 25 | cut -c 66- > "$work/pictures"
    [ -s "$work/pictures" ] || { echo "$folder holds no pictures and is left out" >&2; continue; }
    mkdir -p "$work/learn/$number" "$work/try/$number"
    count=0
    while IFS= read -r file; do
        count=$((count + 1))
        to=try
        [ "$count" -gt 5 ] || to=learn
        ln -s "$file" "$work/$to/$number/$count-$(basename "$file")"
    done < "$work/pictures"
    # A bundle may know such a thing already; yours get numbers for names, which are as they are in every alphabet.
    set -- "$@" "own thing $number=$work/learn/$number"
done
[ $# -gt 0 ] || { echo "no folder of $pictures holds pictures" >&2; exit 1; }
$orco learn --take-anyway --state "$work/state" $options "$@" > "$work/said"
right=0
all=0
for folder in "$work/try"/*/; do
    count=$(ls "$folder" | wc -l)
    [ "$count" -gt 0 ] || continue
    # A picture that cannot be read is told, and counts as wrong.
    $orco classify --state "$work/state" $options "$folder"* > "$work/answers" || true
    right=$((right + $(grep -vF ': unknown; nearest: ' "$work/answers" | grep -cF ": own thing $(basename "$folder") (" || true)))
    all=$((all + count))
done
grep "expected" "$work/said" || true
[ "$all" -gt 0 ] || { echo "no folder holds more than five pictures, so none are left to try" >&2; exit 1; }
echo "$right of $all pictures right, $((100 * right / all)) %"
