#!/usr/bin/env bash
# Trains a model of this folder, chooses its search on validation text, and scores it on test text.
#   examples/goals/train.sh multi30k-en-de DATA [OPTION...]
#   examples/goals/train.sh tatoeba-en-fr DATA --config examples/goals/cpu-tatoeba.toml --run.compile true
# DATA has multi30k/train.en.gz, tatoeba-en-fr/train.tsv.gz and so on; `dragoman train` gets each OPTION. The same command
# continues where the last one was stopped or killed.
set -euo pipefail
name=${1:?a model, such as multi30k-en-de} # corpus-en-TARGET
data=$(realpath "${2:?the folder with multi30k, tatoeba-en-fr, ...}")
shift 2
cd "$(dirname "$0")/../.."
export PATH="$PWD/.venv/bin:$PATH"
work=runs/goals
target=${name##*-}
recipe=examples/goals/$name.toml
[ -e "$recipe" ] || { echo "train.sh: the model must be one of examples/goals/*-en-*.toml, but is $name" >&2; exit 2; }

pairs() { # PART: the file of English and TARGET, tab-separated, of valid or test
    case $name-$1 in
    multi30k-*-valid) paste <(zcat "$data/multi30k/val.en.gz") <(zcat "$data/multi30k/val.$target.gz") >$work/$name-valid.tsv ;;
    multi30k-*-test) paste <(zcat "$data/multi30k/test_2016_flickr.en.gz") \
        <(zcat "$data/multi30k/test_2016_flickr.$target.gz") >$work/$name-test.tsv ;;
    *-valid) zcat "$data/$name/valid.tsv.gz" >$work/$name-valid.tsv ;;
    *-test) zcat "$data/$name/dev-test.tsv.gz" >$work/$name-test.tsv ;;
    esac
    echo "$work/$name-$1.tsv"
}

mkdir -p $work
ln -sfn "$data" $work/data
dragoman train --config "examples/goals/${name%%-*}.toml" --config "$recipe" --resume "$@" | tee $work/$name.log
best=$(sed -n 's/^Ended by .* are in //p' $work/$name.log)/checkpoints/best
grep -q '"tuning"' "$best/provenance.json" || dragoman tune "$best" --corpus "en-$target" "$(pairs valid)" \
    --beam-size 4 --beam-size 6 --beam-size 8
both=()
! dragoman inspect "$best" | grep -q "^languages:.* $target → en" || both=(--both)
dragoman evaluate --checkpoint "$best" --corpus "$(pairs test)" --source en --target "$target" "${both[@]}" --record test
