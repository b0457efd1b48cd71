#!/bin/sh
# Runs one shell command so that its end is known whoever lives to see it. The worker starts this script detached and may
# die at any moment; nothing here needs it. POSIX sh only: a Node process for each command would cost ten times as much.
#
#   supervisor.sh supervise <base> <output file> <directory> <time limit in ms> <limit of silence in ms> <output limit in bytes>
#
#   <base>.start    pid and start ticks of the supervisor; created exclusively, so exactly one party decides
#   <base>.pid      the same of the command, which leads its own session and process group
#   <base>.limits   what the command may take, as sh: groups, memory_bytes, watched_bytes, limit_command (limits.ts)
#   <base>.stopped  `time`, `silence`, `size` or `memory`: the supervisor is ending the command for this reason
#   <base>.exit     exit code and the reason; appears whole, by rename, when nothing of the group is left
mode=$1 base=$2 output=$3 directory=$4 limit_ms=$5 silence_ms=$6 max_bytes=$7

main() {
  set -C
  exec 3>"$base.start" || exit 1
  set +C
  # On a full disk nothing was started and the file must not say otherwise.
  identity >&3 || { rm -f "$base.start"; exit 1; }
  exec 3>&-
  ulimit -c 0
  . "$base.limits"
  watch &
  watchdog=$!
  # In the foreground, because a shell makes its background commands ignore SIGINT.
  setsid sh "$0" command "$base" "$output" "$directory"
  code=$?
  reason=none
  [ -e "$base.stopped" ] || kill "$watchdog"
  wait "$watchdog"
  if [ -e "$base.stopped" ]; then read -r reason <"$base.stopped"; else end_leftovers; fi
  end_groups
  # On a full disk the end is known here alone: it is written as soon as there is room, while anybody may still want it.
  until echo "$code $reason" >"$base.exit.new" && mv "$base.exit.new" "$base.exit"; do
    [ -d "${base%/*}" ] || exit 1
    sleep 1
  done
}

command_itself() {
  exec >>"$output" 2>&1
  cd "$directory" || exit 1
  . "$base.limits"
  limit_command
  identity >"$base.pid" || exit 1
  # A limit that was reached before the file was there found nobody to end.
  [ ! -e "$base.stopped" ] || exit 143
  # The tag finds what leaves the process group; the prelude reports failed stages of a pipeline.
  PAWL_CALL=$base BASH_ENV=${0%/*}/prelude.sh
  export PAWL_CALL BASH_ENV
  exec bash --noprofile --norc "$base.sh"
}

# Pid and start time: together they name a process even after its pid was given to another.
identity() {
  read -r stat </proc/self/stat
  set -- ${stat##*) }
  shift 19
  echo "$$ $1"
}

watch() {
  # Waited for, because in a container nobody may collect orphans.
  trap 'kill $!; wait $!; exit' TERM
  now_cs
  deadline=$((now + limit_ms / 10)) pause=25 heard=$now last_size=
  while now_cs; [ "$now" -lt "$deadline" ]; do
    [ "$pause" -le $((deadline - now)) ] || pause=$((deadline - now))
    [ "$pause" -ge 10 ] || pause=10
    sleep "$((pause / 100)).$((pause % 100 / 10))" &
    wait $!
    size=$(wc -c <"$output") || size=0
    [ "$size" -le "$max_bytes" ] || stop size
    now_cs
    [ "$size" = "$last_size" ] || { last_size=$size heard=$now; }
    [ $((now - heard)) -lt $((silence_ms / 10)) ] || stop silence
    [ -z "$watched_bytes" ] || has_memory_left || stop memory
    pause=$((pause * 2)) && [ "$pause" -le 100 ] || pause=100
  done
  stop time
}

# Centiseconds of a clock that nobody sets.
now_cs() {
  read -r uptime rest </proc/uptime
  now=${uptime%.*}${uptime#*.}
}

stop() {
  trap '' TERM
  echo "$1" >"$base.stopped"
  end_group 20
  kill_tagged 2
  if [ "$1" = size ]; then
    truncate -s "$max_bytes" "$output"
    printf '\n[stopped: the output passed %s bytes]\n' "$max_bytes" >>"$output"
  fi
  [ "$1" != memory ] || say_memory
  exit
}

say_memory() {
  printf '\n[processes were ended: the command and what it started used more than %s bytes of memory]\n' "$memory_bytes" >>"$output"
}

# What the session has in memory; for machines on which no control group can be made.
has_memory_left() {
  read -r session rest <"$base.pid" || return 0
  : "${page_bytes:=$(getconf PAGESIZE)}"
  used=0
  for file in /proc/[0-9]*/stat; do
    read -r stat <"$file" || continue
    set -- ${stat##*) }
    [ "$4" != "$session" ] || used=$((used + ${22} * page_bytes))
  done
  [ "$used" -le "$watched_bytes" ]
}

# A control group holds even what gave up both its process group and its tag.
end_groups() {
  for group in $groups; do
    # Version 2 says it in memory.events, version 1 in memory.oom_control.
    cat "$group/memory.events" "$group/memory.oom_control" | grep -q '^oom_kill [1-9]' && say_memory
    looks=50
    until rmdir "$group" || [ "$looks" -eq 0 ]; do
      looks=$((looks - 1))
      while read -r pid; do kill -KILL "$pid"; done <"$group/cgroup.procs"
      sleep 0.02
    done
  done
}

# What left the group by setsid still carries the tag. Done when $1 looks in a row found nothing: a process that is just
# becoming another program shows no tag for a moment.
kill_tagged() {
  missed=0 looks=50
  while
    looks=$((looks - 1)) missed=$((missed + 1))
    for file in $(grep -lzxF "PAWL_CALL=$base" /proc/[0-9]*/environ); do
      missed=0 pid=${file#/proc/}
      kill -KILL "${pid%/environ}"
    done
    [ "$missed" -lt "$1" ] && [ "$looks" -gt 0 ]
  do sleep 0.05; done
}

# The result does not wait for background processes: they get half a second, then they are ended and that is said.
end_leftovers() {
  group_empty_after 5 && { kill_tagged 1; return; }
  printf '\n[processes left running in the background were ended with the command]\n' >>"$output"
  end_group 5
  kill_tagged 2
}

end_group() {
  read -r group rest <"$base.pid" || return
  kill -TERM "-$group"
  group_empty_after "$1" && return
  kill -KILL "-$group"
  group_empty_after 10
}

# Waits up to $1 tenths of a second.
group_empty_after() {
  read -r group rest <"$base.pid" || return 0
  tenths=$1
  while group_lives; do
    [ "$tenths" -gt 0 ] || return 1
    tenths=$((tenths - 1))
    sleep 0.1
  done
}

# Whether the group has a member that is more than a zombie nobody collects.
group_lives() {
  kill -0 "-$group" || return 1
  for file in /proc/[0-9]*/stat; do
    read -r stat <"$file" || continue
    set -- ${stat##*) }
    [ "$3" = "$group" ] && [ "$1" != Z ] && return 0
  done
  return 1
}

case $mode in
supervise) main ;;
command) command_itself ;;
esac
