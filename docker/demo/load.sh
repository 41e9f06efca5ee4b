#!/bin/sh
# A load to look at: the runs of events.jsonl again and again, each time under other ids. load.sh [ROUNDS]
set -eu
rounds=${1:-0}
here=$(dirname "$0")
events=$(mktemp)
round=0
while [ "$rounds" -eq 0 ] || [ "$round" -lt "$rounds" ]; do
    round=$((round + 1))
    sed "s/ROUND/$(date +%s)-$round/g" "$here/events.jsonl" > "$events"
    loopwarden publish "$events"
    [ "$round" -eq "$rounds" ] || sleep "${PAUSE:-5}"
done
rm -f "$events"
