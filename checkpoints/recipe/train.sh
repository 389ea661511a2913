#!/usr/bin/env bash
# Trains a checkpoint like the embedded one, from random weights to its scores, in runs/everyday/checkpoint.
#   [MINUTES=N] [STAGES=1] checkpoints/recipe/train.sh DATA [OPTION...]
#   CONTINUE=1 checkpoints/recipe/train.sh DATA [OPTION...]    trains the embedded checkpoint itself further instead
#   PREPARE=1 checkpoints/recipe/train.sh DATA    only makes the tokenizer and the token ids of the first stage
# DATA has tatoeba-en-fr/train.tsv.gz and so on; `dragoman train` gets each OPTION in every stage. STAGES=1 leaves out the
# second stage. The same command continues where the last one was stopped or killed, or ended after N minutes.
set -euo pipefail
[ -z "${MINUTES:-}" ] || exec env -u MINUTES timeout --signal=TERM "${MINUTES}m" "$0" "$@"
trap 'exit 143' TERM # after the command in progress, which saves its state when it gets the same signal
data=$(realpath "${1:?the folder with tatoeba-en-fr, tatoeba-en-de, ...}")
shift
cd "$(dirname "$0")/../.."
export PATH="$PWD/.venv/bin:$PATH" PYTHONPATH="$PWD${PYTHONPATH:+:$PYTHONPATH}"
recipe=checkpoints/recipe
work=runs/everyday
languages=(fr de es zh)

dragoman() { python3 -c 'from model.cli import main; main(prog_name="dragoman")' "$@"; } # needs no installation
without_overlap() { # FILE OUTPUT OPTION...: the lines of FILE that share no sentence with the texts of the options
    python3 $recipe/without_overlap.py "$1" -o "$2" "${@:3}"
}
stage() { # NAME OPTION...: a training, unless it has ended
    [ -e "$work/$1.finished" ] || dragoman train --resume "${@:2}"
    touch "$work/$1.finished"
}
rewrite() { # SOURCE TARGET COLUMN FILE: a column of FILE beside its translation by the first stage
    local written=$work/rewritten/$1-$2.tsv.gz
    [ -e "$written" ] || dragoman translate --checkpoint $work/first/checkpoints/last -s "$1" -t "$2" --column "$3" \
        --pairs --skip-long --resume --progress --beam-size 4 "$4" -o "$written"
}
evaluate() { # CHECKPOINT PRECISION OPTION...: its scores on dev-test, recorded in it
    local language
    for language in "${languages[@]}"; do
        dragoman evaluate --checkpoint "$1" --precision "$2" --corpus "$(corpus "$language" dev-test)" \
            --source en --target "$language" --both --record "tatoeba dev-test, $2" "${@:3}"
    done
}
corpus() { echo "$work/data/tatoeba-en-$1/$2.tsv.gz"; }

mkdir -p $work/rewritten
ln -sfn "$data" $work/data
tests=($work/data/{*-en-{fr,de,es,zh},interface}/dev-test.tsv.gz)
trained=($work/phrases.tsv $work/interface.tsv $work/data/{tatoeba,python-docs,europarl20k}-en-*/train.tsv.gz)

echo "1/4 The first stage"
[ -e $work/phrases.tsv ] || without_overlap $recipe/phrases.tsv $work/phrases.tsv "${tests[@]/#/--text=}"
[ -e $work/interface.tsv ] || without_overlap $work/data/interface/train.tsv.gz $work/interface.tsv "${tests[@]/#/--text=}"
if [ -n "${PREPARE:-}" ]; then
    dragoman train --config $recipe/first.toml --prepare "$@"
    exit
fi
if [ -n "${CONTINUE:-}" ]; then
    stage continued --config $recipe/first.toml --config $recipe/continue.toml "$@"
    last=$work/mean # the phrases that the short training forgot come back
    embedded=checkpoints/everyday
    [ -e $last ] || dragoman average $work/continued/checkpoints/last $embedded $embedded $embedded -o $last
else
    stage first --config $recipe/first.toml "$@"
    last=$work/first/checkpoints/last
fi
if [ "${STAGES:-2}" = 2 ] && [ -z "${CONTINUE:-}" ]; then
    echo "2/4 The text as the first stage translates it"
    for language in "${languages[@]}"; do
        rewrite en "$language" 1 "$(corpus "$language" train)"
        rewrite "$language" en 2 "$(corpus "$language" train)"
    done
    echo "3/4 The second stage"
    stage second --config $recipe/first.toml --config $recipe/second.toml "$@"
    last=$work/second/checkpoints/last
fi

echo "4/4 Search, storage in int8, scores of both, and self-test sentences"
if [ ! -e $work/float ]; then
    valid=()
    for language in "${languages[@]}"; do valid+=(--corpus "en-$language" "$(corpus "$language" valid)"); done
    rm -rf $work/float.part
    cp -r "$last" $work/float.part
    dragoman tune $work/float.part "${valid[@]}" --limit 500 --metric chrf \
        --length-penalty 0.8 --length-penalty 1 --length-penalty 1.2 --length-penalty 1.4
    mv $work/float.part $work/float
fi
evaluate $work/float float32
[ -e $work/checkpoint ] || dragoman average $work/float --storage int8 -o $work/checkpoint
evaluate $work/checkpoint int8 --device cpu # as the service computes it
without_overlap $recipe/golden.tsv $work/golden.tsv --header "${trained[@]/#/--text=}"
dragoman golden $work/checkpoint --references $work/golden.tsv
echo "The checkpoint is $work/checkpoint"
