# For scripts to source, from any directory: what run.sh and run_multinode.sh share. Where the program is, how many ranks a
# host gets, what mpirun hands on to them, what people see of mpirun's own words, and signals: mpirun answers SIGINT and SIGTERM by killing its ranks, but hands SIGUSR1 on,
# which asks them to stop behind their step and save.

PLAN=()
launch_lib=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

die() { echo "$(basename "$0"): $*" >&2; exit 2; }

# Devices of this host: those that ASCEND_RT_VISIBLE_DEVICES names, those under /dev, or on a host without any the
# ranks that have two cores each.
count_devices() {
  if [ -n "${ASCEND_RT_VISIBLE_DEVICES:-}" ]; then
    awk -F, '{print NF}' <<<"$ASCEND_RT_VISIBLE_DEVICES"
    return
  fi
  local found=(/dev/davinci[0-9]*)
  if [ -e "${found[0]}" ]; then echo ${#found[@]}; else echo $((($(nproc) + 1) / 2)); fi
}

# Cores that this process may use; mpirun counts none twice for its threads.
count_cores() {
  local all physical
  all=$(nproc)
  physical=$(lscpu -p=core,socket 2>/dev/null | grep -v '^#' | sort -u | wc -l)
  echo $((physical > 0 && physical < all ? physical : all))
}

# NPROC_PER_NODE, or as many ranks as devices.
ranks_a_host() {
  local ranks=${NPROC_PER_NODE:-$(count_devices)}
  [[ $ranks =~ ^[1-9][0-9]*$ ]] || die "NPROC_PER_NODE is '$ranks'; write a number of ranks, such as 8"
  echo "$ranks"
}

find_program() {
  local program=${TRIREME:-$(realpath "$launch_lib/../..")/build/trireme}
  [ -x "$program" ] || die "$program is no program; scripts/build makes it, or name another as TRIREME"
  realpath "$program"
}

# Options of mpirun for so many ranks a host: each gets its own cores where there are enough, and the variables that
# CANN, HCCL and this program read are handed on.
mpirun_options() {
  local ranks=$1 cores name
  command -v mpirun >/dev/null || die "mpirun was not found on PATH; scripts/setup installs Open MPI"
  cores=$(($(count_cores) / ranks))
  MPIRUN=(mpirun --allow-run-as-root)
  if [ "$cores" -ge 1 ] && [ "$ranks" -gt 1 ]; then
    MPIRUN+=(--map-by "ppr:$ranks:node:pe=$cores" --bind-to core)
  else  # fewer cores than ranks: who waits lets the others run; or a lone rank, which takes them all
    MPIRUN+=(--oversubscribe --map-by "ppr:$ranks:node" --bind-to none --mca mpi_yield_when_idle 1)
  fi
  export OMP_NUM_THREADS=${OMP_NUM_THREADS:-$((cores > 0 ? cores : 1))}
  # Every rank's stdout looks like a terminal to it: only here is known whether one is at its end.
  export TRIREME_TERMINAL=0
  export TRIREME_STDERR_TERMINAL=0
  if [ -t 2 ]; then export TRIREME_STDERR_TERMINAL=1; fi
  if [ -t 1 ]; then export TRIREME_TERMINAL=1 COLUMNS=${COLUMNS:-$(tput cols 2>/dev/null || echo 80)}; fi
  for name in $(compgen -e); do
    case $name in
      TRIREME_TOKEN) ;;  # of the scripts alone
      HCCL_*|ASCEND_*|TRIREME_*|TWIN_*|TASK_QUEUE_ENABLE|OMP_NUM_THREADS|COLUMNS|LD_LIBRARY_PATH|PATH)
        MPIRUN+=(-x "$name") ;;
    esac
  done
}

# Runs a command as its own group of processes, so that Ctrl-C reaches only this script, which asks the ranks to stop; a
# second one, at least a second later, ends them. Returns the command's status. PLAN, where it is not empty, is the command
# that prints the run's plan.
run_and_pass_signals() {
  local status=0 signalled=0 asked_at= words explains
  exec {words}> >(exec "$launch_lib/explain_mpirun" "${PLAN[@]}")
  explains=$!
  setsid "$@" 2>&"$words" {words}>&- &
  local child=$!
  exec {words}>&-
  trap 'signalled=1; pass_signal' INT TERM
  while :; do
    signalled=0
    wait $child && status=0 || status=$?
    [ $signalled = 1 ] || break  # otherwise only a signal ended the wait
  done
  trap - INT TERM
  local explained=0
  wait $explains || explained=$?  # the last words
  if [ $status -gt 128 ] && [ $explained = 0 ] && [ -z "$asked_at" ]; then
    echo "$(basename "$0"): $(basename "$1") was ended by signal $((status - 128)); the same command resumes from the newest checkpoint" >&2
  fi
  return $status
}

pass_signal() { # within run_and_pass_signals
  if [ -z "$asked_at" ]; then
    asked_at=$SECONDS
    kill -USR1 "$child" || true
  elif [ $((SECONDS - asked_at)) -ge 1 ]; then
    kill -TERM "$child" || true
  fi
} 2>/dev/null
