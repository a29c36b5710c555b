#!/usr/bin/env bash
# Training on a machine that is lent for minutes, reached by nothing but "run this command over a copy of the working
# tree": the data travels in pieces, the training runs detached between calls, checkpoints come back in pieces.
#
# Here, once:
#   trainer/gpu/lease.sh prepare BINARY RECIPE DATA [RUN]   fills .gpu/: one folder per piece, each for one call's transfer;
#                                                           RUN, a run that has begun, travels too and is continued
# There, while the machine is held (the folders .gpu/N named in "carry"); several in one call where machines are taken back
# soon after each, as in "receive 3 && start align && watch 500" and "stop && fetch 0":
#   trainer/gpu/lease.sh receive N                          takes piece N over; 0 comes first and forgets an older parcel
#   trainer/gpu/lease.sh start COMMAND [ARGUMENT...]        checks and unpacks everything, then starts, detached,
#                                                           orco-train COMMAND recipe.toml --data ... --run ... ARGUMENT...
#                                                           on the GPU, unless a --device is given; "align" does both phases
#   trainer/gpu/lease.sh watch SECONDS                      shows the log; returns when training has ended, or after SECONDS
#   trainer/gpu/lease.sh stop                               Ctrl-C: saves and stops
#   trainer/gpu/lease.sh fetch N                            puts the run's files into $OUT: group N of pieces; 0 takes a new
#                                                           picture of the run, also while it goes on
# Here again:
#   trainer/gpu/lease.sh join RUN PIECES...                 puts fetched pieces together and checks them
#
# LEASE_WORK is the folder used there (default /tmp/orco-lease; one in memory, such as /dev/shm/orco-lease, saves fastest).
# Sizes: PIECE bytes per call there (default 48 MB); FETCH_FILE bytes per file and FETCH_FILES per call back (15 MiB, 4).
set -euo pipefail
piece=${PIECE:-48000000}
fetch_file=${FETCH_FILE:-15728640}
fetch_files=${FETCH_FILES:-4}
work=${LEASE_WORK:-/tmp/orco-lease}
parcel=${LEASE_PARCEL:-.gpu}

fail() {
    echo "lease.sh: $*" >&2
    exit 1
}

usage() {
    sed -n '2,/^set -e/{/^set -e/d;s/^# \{0,1\}//;p}' "$0" >&2
    exit 2
}

# Cuts a stream into DIR/0/part, DIR/1/part ... of at most SIZE bytes each.
cut_into() {
    local folder=$1 size=$2
    split --bytes="$size" --numeric-suffixes --suffix-length=2 - "$folder/part-"
    local number=0 part
    for part in "$folder"/part-*; do
        mkdir -p "$folder/$number"
        mv "$part" "$folder/$number/part"
        number=$((number + 1))
    done
    echo "$number"
}

prepare() {
    [ $# -ge 3 ] || usage
    local binary=$1 recipe=$2 data=$3 run=${4:-} staging
    [ -x "$binary" ] || fail "$binary is no program; build it with: cargo build --release --workspace"
    [ -f "$recipe" ] || fail "there is no recipe $recipe"
    [ -d "$data" ] || fail "there is no data folder $data"
    rm -rf "$parcel"
    mkdir -p "$parcel"
    staging=$(mktemp -d)
    trap 'rm -rf "$staging"' RETURN
    strip -o "$staging/orco-train" "$binary"
    cp "$recipe" "$staging/recipe.toml"
    ln -s "$(realpath "$data")" "$staging/data"
    if [ -n "$run" ]; then cp -r "$run" "$staging/run"; fi
    (cd "$staging" && find -L . -type f ! -name SHA256SUMS -print0 | sort -z | xargs -0 sha256sum) >"$staging/SHA256SUMS"
    local pieces
    pieces=$(tar --create --dereference --directory="$staging" . | gzip -6 | cut_into "$parcel" "$piece")
    echo "$pieces" >"$parcel/pieces"
    for ((number = 0; number < pieces; number++)); do cp "$parcel/pieces" "$parcel/$number/"; done
    rm "$parcel/pieces"
    echo "$pieces pieces in $parcel: for N in 0 to $((pieces - 1)) carry $parcel/N and run: trainer/gpu/lease.sh receive N"
}

# A program that is being used is not replaced.
nothing_runs() {
    [ ! -f "$work/pid" ] || [ -f "$work/status" ] || ! kill -0 "$(cat "$work/pid")" 2>/dev/null || fail "a training runs already; stop it first"
}

receive() {
    [ $# -eq 1 ] || usage
    [ -f "$parcel/$1/part" ] || fail "piece $1 did not travel: name $parcel/$1 in carry"
    if [ "$1" -eq 0 ]; then
        nothing_runs
        rm -rf "$work/pieces" "$work/unpacked" "$work/data"
    fi
    mkdir -p "$work/pieces"
    cp "$parcel/$1/part" "$work/pieces/part-$(printf %03d "$1")"
    cp "$parcel/$1/pieces" "$work/pieces/count"
    echo "piece $1 of $(cat "$work/pieces/count") is there"
}

# libtorch of the machine's own PyTorch, unless the caller names one.
find_libtorch() {
    if [ -n "${LIBTORCH:-}" ]; then
        echo "$LIBTORCH/lib"
    else
        local torch
        torch=$(python3 -c 'import pathlib, torch; print(torch.__version__, pathlib.Path(torch.__file__).parent / "lib")') ||
            fail "this machine has no PyTorch; set LIBTORCH to a folder of libtorch 2.11"
        case $torch in
        2.11.*) echo "${torch#* }" ;;
        *) fail "this machine has PyTorch ${torch%% *}, and the program needs 2.11; set LIBTORCH to a folder of libtorch 2.11" ;;
        esac
    fi
}

start() {
    [ $# -ge 1 ] || usage
    nothing_runs
    local there libraries
    mkdir -p "$work/pieces"
    there=$(find "$work/pieces" -name 'part-*' | wc -l)
    [ "$there" -gt 0 ] && [ "$there" -eq "$(cat "$work/pieces/count")" ] ||
        fail "$there pieces of $(cat "$work/pieces/count" 2>/dev/null || echo '?') are there; receive the others first"
    if [ ! -f "$work/unpacked" ]; then
        rm -rf "$work/parcel"
        mkdir "$work/parcel"
        cat "$work"/pieces/part-* | tar --extract --gzip --directory="$work/parcel"
        (cd "$work/parcel" && sha256sum --quiet --check SHA256SUMS) || fail "a piece was damaged on its way"
        # A run that travelled replaces the one that is here; without one, that one goes on.
        local thing
        for thing in "$work"/parcel/*; do
            rm -rf "${work:?}/$(basename "$thing")"
            mv "$thing" "$work/"
        done
        touch "$work/unpacked"
    fi
    libraries=$(find_libtorch)
    export LD_LIBRARY_PATH=$libraries${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
    local command=$1 report
    shift
    report=$("$work/orco-train" doctor "$work")
    echo "$report"
    case " $* " in
    *" --device "* | *" --device="*) ;;
    *)
        # Nobody lends a GPU to train on the processor.
        grep -q '^CUDA .*device(s)' <<<"$report" || fail "no GPU can be used here; --device cpu trains all the same"
        set -- --device cuda "$@"
        ;;
    esac
    # A session of its own: it runs on when this call returns.
    rm -f "$work/status" "$work/pid"
    setsid bash -c 'work=$1; shift; "$@" & echo $! >"$work/pid"; wait $!; echo $? >"$work/status"' lease "$work" \
        "$work/orco-train" "$command" "$work/recipe.toml" --data "$work/data" --run "$work/run" "$@" \
        >"$work/log" 2>&1 </dev/null &
    local waited=0
    while [ ! -s "$work/pid" ]; do
        [ $((waited += 1)) -lt 100 ] || fail "the training did not start: $(cat "$work/log")"
        sleep 0.1
    done
    echo "training started, process $(cat "$work/pid")"
}

watch() {
    [ $# -eq 1 ] || usage
    local until=$((SECONDS + $1))
    [ -f "$work/log" ] || fail "nothing was started"
    tail -n 15 -f "$work/log" &
    local tail=$!
    while [ ! -f "$work/status" ] && [ $SECONDS -lt $until ]; do sleep 1; done
    sleep 1
    kill $tail
    if [ -f "$work/status" ]; then
        echo "training has ended, exit code $(cat "$work/status")"
    else
        echo "training goes on"
    fi
}

stop() {
    [ -f "$work/pid" ] || fail "nothing was started"
    [ -f "$work/status" ] || kill -INT "$(cat "$work/pid")" 2>/dev/null || true
    watch "${1:-300}"
}

fetch() {
    [ $# -eq 1 ] || usage
    [ -n "${OUT:-}" ] || fail "OUT is not set: it is the folder whose files come back"
    [ -d "$work/run" ] || fail "there is no run yet"
    if [ ! -d "$work/back" ] || [ "$1" -eq 0 ]; then
        # One picture of the run for all groups. Checkpoints are whole, since the program replaces them at once; lines come
        # after them, since a run drops lines that no checkpoint has.
        rm -rf "$work/back" "$work/picture"
        mkdir -p "$work/picture/run" "$work/new"
        local which='-maxdepth 1 -type f ! -name *.tmp ! -name lock' again="the run went on meanwhile; fetch group 0 again"
        (
            set -f
            # shellcheck disable=SC2086
            find "$work/run" $which -name '*.safetensors' -exec cp -p -t "$work/picture/run" {} + &&
                find "$work/run" $which ! -name '*.safetensors' -exec cp -p -t "$work/picture/run" {} +
        ) || fail "$again"
        if [ -f "$work/log" ]; then cp "$work/log" "$work/picture/run/lease.log"; fi
        rm -f "$work"/new/*
        tar --create --directory="$work/picture" run | split --bytes="$fetch_file" --numeric-suffixes --suffix-length=2 - "$work/new/run.tar."
        (cd "$work/new" && sha256sum run.tar.* >sums)
        mv "$work/new" "$work/back"
    fi
    local files group
    files=$(ls "$work/back" | grep -c '^run.tar')
    group=$(ls "$work"/back/run.tar.* | tail -n +$(($1 * fetch_files + 1)) | head -n "$fetch_files")
    [ -n "$group" ] || fail "there is no group $1"
    # shellcheck disable=SC2086
    cp $group "$OUT/"
    cp "$work/back/sums" "$OUT/run.sums"
    echo "group $1: $(echo "$group" | wc -l) of $files files; groups 0 to $(((files - 1) / fetch_files))"
}

join() {
    [ $# -ge 2 ] || usage
    local run=$1 staging
    shift
    [ ! -e "$run" ] || fail "$run is there already; name a new folder"
    staging=$(mktemp -d)
    trap 'rm -rf "$staging"' RETURN
    cp "$@" "$staging/"
    (cd "$staging" && sha256sum --quiet --check run.sums) || fail "a piece is missing or damaged; fetch its group again"
    cat "$staging"/run.tar.* | tar --extract --directory="$staging"
    mkdir -p "$(dirname "$run")"
    mv "$staging/run" "$run"
    echo "the run is in $run"
}

[ $# -ge 1 ] || usage
verb=$1
shift
case $verb in
prepare | receive | start | watch | stop | fetch | join) "$verb" "$@" ;;
*) usage ;;
esac
