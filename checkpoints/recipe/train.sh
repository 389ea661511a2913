#!/usr/bin/env bash
# Trains a checkpoint like the embedded one, from random weights to its scores, in runs/everyday/checkpoint.
#   checkpoints/recipe/train.sh DATA [OPTION...]
# DATA has tatoeba-en-fr/train.tsv.gz and so on; `dragoman train` gets each OPTION in both stages. The same command
# continues where the last one was stopped or killed.
set -euo pipefail
data=$(realpath "${1:?the folder with tatoeba-en-fr, tatoeba-en-de, ...}")
shift
cd "$(dirname "$0")/../.."
export PATH="$PWD/.venv/bin:$PATH"
recipe=checkpoints/recipe
work=runs/everyday
languages=(fr de es zh)

without_overlap() { # FILE OUTPUT OPTION...: the lines of FILE that share no sentence with the texts of the options
    python $recipe/without_overlap.py "$1" -o "$2" "${@:3}"
}
rewrite() { # SOURCE TARGET COLUMN FILE: a column of FILE beside its translation by the first stage
    local written=$work/rewritten/$1-$2.tsv.gz
    [ -e "$written" ] || dragoman translate --checkpoint $work/first/checkpoints/last -s "$1" -t "$2" --column "$3" \
        --pairs --skip-long --resume --progress --beam-size 4 "$4" -o "$written"
}

mkdir -p $work/rewritten
ln -sfn "$data" $work/data
tests=($work/data/*-en-{fr,de,es,zh}/dev-test.tsv.gz)
trained=($work/phrases.tsv $work/data/{tatoeba,python-docs,europarl20k}-en-*/train.tsv.gz)
corpus() { echo "$work/data/tatoeba-en-$1/$2.tsv.gz"; }

echo "1/4 The first stage"
[ -e $work/phrases.tsv ] || without_overlap $recipe/phrases.tsv $work/phrases.tsv "${tests[@]/#/--text=}"
dragoman train --config $recipe/first.toml --resume "$@"

echo "2/4 The text as the first stage translates it"
for language in "${languages[@]}"; do
    rewrite en "$language" 1 "$(corpus "$language" train)"
    rewrite "$language" en 2 "$(corpus "$language" train)"
done

echo "3/4 The second stage"
dragoman train --config $recipe/first.toml --config $recipe/second.toml --resume "$@"

echo "4/4 Search, scores and self-test sentences"
if [ ! -e $work/checkpoint ]; then
    rm -rf $work/checkpoint.part
    cp -r $work/second/checkpoints/last $work/checkpoint.part
    mv $work/checkpoint.part $work/checkpoint
fi
valid=()
for language in "${languages[@]}"; do valid+=(--corpus "en-$language" "$(corpus "$language" valid)"); done
dragoman tune $work/checkpoint "${valid[@]}" --limit 500 --metric chrf \
    --length-penalty 0.8 --length-penalty 1 --length-penalty 1.2 --length-penalty 1.4
for precision in float32 int8; do
    for language in "${languages[@]}"; do
        dragoman evaluate --checkpoint $work/checkpoint --precision $precision --corpus "$(corpus "$language" dev-test)" \
            --source en --target "$language" --both --record "tatoeba dev-test, $precision"
    done
done
without_overlap $recipe/golden.tsv $work/golden.tsv --header "${trained[@]/#/--text=}"
dragoman golden $work/checkpoint --references $work/golden.tsv
echo "The checkpoint is $work/checkpoint"
