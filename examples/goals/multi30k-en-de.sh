#!/usr/bin/env bash
# Multi30k, English → German on one CPU core, from nothing to its score in three hours: the network for both directions, the
# text as it translates it, and a network that goes on with both.
#   examples/goals/multi30k-en-de.sh FOLDER
# FOLDER has multi30k/train.en.gz and so on. The same command goes on where the last one was stopped.
set -euo pipefail
data=$(realpath "${1:?the folder with multi30k}")
cd "$(dirname "$0")/../.."
export PATH="$PWD/.venv/bin:$PATH"

goal() { # OVERLAY...: train and score with these laid over the recipe
    examples/goals/train.sh multi30k-en-de "$data" "${@/#/--config=examples/goals/}"
}
rewrite() { # NAME SOURCE TARGET OPTION...: the training text of SOURCE beside its translation
    local written=runs/goals/multi30k-rewritten/$1.tsv.gz
    [ -e "$written" ] || dragoman translate --checkpoint runs/goals/multi30k-en-de/checkpoints/best -s "$2" -t "$3" --pairs \
        --skip-long --resume --progress "${@:4}" "$data/multi30k/train.$2.gz" -o "$written"
}

goal cpu-multi30k.toml
mkdir -p runs/goals/multi30k-rewritten
rewrite forward en de --beam-size 5
rewrite back de en --beam-size 5
rewrite sampled de en --strategy sample --top-p 0.9
goal cpu-multi30k.toml cpu-multi30k-again.toml
