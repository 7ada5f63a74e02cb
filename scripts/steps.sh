# Sourced by the scripts here: `step NAME COMMAND...` runs a command under a heading and says how
# long it took; a failed step ends the script with the command's status.
SECONDS=0

say() { printf '== [%4ds] %s\n' "$SECONDS" "$*" >&2; }

step() {
    local name=$1 start=$SECONDS status=0
    shift
    say "$name"
    "$@" || status=$?
    if [ "$status" -ne 0 ]; then
        say "$name: failed with status $status after $((SECONDS - start)) s"
        exit "$status"
    fi
    say "$name: done in $((SECONDS - start)) s"
}
