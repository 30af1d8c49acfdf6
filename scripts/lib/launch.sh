# For scripts to source, from any directory: what run.sh and run_multinode.sh share. Finds the program, counts the
# ranks per host, sets what mpirun passes on to them, filters mpirun's own messages, and handles signals: on SIGINT and
# SIGTERM mpirun kills its ranks, but it forwards SIGUSR1, which asks them to stop after the current step and save.

PLAN=()
launch_lib=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$launch_lib/mpi.sh"  # where mpirun is

die() { echo "$(basename "$0"): $*" >&2; exit 2; }

# A program for CUDA is linked with torch's library for it; one for CANN or the twin is not.
is_for_cuda() { grep -qsF libtorch_cuda.so "$1"; }

# GPUs of this host: those in CUDA_VISIBLE_DEVICES, or all; each counts CUDA_PROVIDER_RANKS_PER_GPU times.
count_gpus() {
  local found=(/dev/nvidia[0-9]*) gpus
  if [ -n "${CUDA_VISIBLE_DEVICES+set}" ]; then
    gpus=$(tr ',' '\n' <<<"$CUDA_VISIBLE_DEVICES" | sed '/^-/,$d' | grep -c . || true)  # CUDA stops at a negative number
  elif [ -e "${found[0]}" ]; then
    gpus=${#found[@]}
  else  # where the driver has no such files
    gpus=$(nvidia-smi -L 2>/dev/null | grep -c '^GPU ' || true)
  fi
  echo $((gpus * ${CUDA_PROVIDER_RANKS_PER_GPU:-1}))
}

# Devices of this host, for PROGRAM: GPUs for one that was built for CUDA; NPUs, those in ASCEND_RT_VISIBLE_DEVICES or
# those under /dev; or on a host without any the number of ranks with two cores each.
count_devices() {
  local gpus=0
  ! is_for_cuda "$1" || gpus=$(count_gpus)
  if [ "$gpus" -gt 0 ]; then
    echo "$gpus"
    return
  fi
  if [ -n "${ASCEND_RT_VISIBLE_DEVICES:-}" ]; then
    awk -F, '{print NF}' <<<"$ASCEND_RT_VISIBLE_DEVICES"
    return
  fi
  local found=(/dev/davinci[0-9]*)
  if [ -e "${found[0]}" ]; then echo ${#found[@]}; else echo $((($(nproc) + 1) / 2)); fi
}

# Cores that this process may use; mpirun does not count hardware threads.
count_cores() {
  local all physical
  all=$(nproc)
  physical=$(lscpu -p=core,socket 2>/dev/null | grep -v '^#' | sort -u | wc -l)
  echo $((physical > 0 && physical < all ? physical : all))
}

# NPROC_PER_NODE, or as many ranks as PROGRAM has devices.
ranks_a_host() {
  local ranks=${NPROC_PER_NODE:-$(count_devices "$1")}
  [[ $ranks =~ ^[1-9][0-9]*$ ]] || die "NPROC_PER_NODE is '$ranks'; set a number of ranks, such as 8"
  echo "$ranks"
}

find_program() {
  local program=${TRIREME:-$(realpath "$launch_lib/../..")/build/trireme}
  [ -x "$program" ] || die "$program does not exist; run scripts/build, or set TRIREME to another program"
  realpath "$program"
}

# TABLE_*, from a rank table: its number of servers, their addresses with commas, and this host's index (or NODE_RANK). Its
# devices per server become NPROC_PER_NODE, and which they are reaches the ranks (bind_cores).
use_rank_table() { # FILE
  local answer key value
  answer=$("$launch_lib/rank_table" "$1" ${NODE_RANK:+--node "$NODE_RANK"}) || exit 2
  [ -z "${ASCEND_RT_VISIBLE_DEVICES:-}" ] ||
    die "ASCEND_RT_VISIBLE_DEVICES=$ASCEND_RT_VISIBLE_DEVICES and the rank table $1 both choose devices; unset one"
  while IFS='=' read -r key value; do
    case $key in
      servers) TABLE_SERVERS=$value ;;
      hosts) TABLE_HOSTS=$value ;;
      node) TABLE_NODE=$value ;;
      devices) export TRIREME_RANK_TABLE_DEVICES=$value ;;
      ranks)
        [ "${NPROC_PER_NODE:-$value}" = "$value" ] ||
          die "NPROC_PER_NODE is $NPROC_PER_NODE, but the rank table $1 has $value devices per server; unset one"
        NPROC_PER_NODE=$value ;;
    esac
  done <<<"$answer"
}

# MPIRUN: mpirun and its options for this many ranks per host of PROGRAM. Each gets its own cores if there are enough, and
# the variables that are read by this program, CANN, CUDA, torch, hubs and trackers are sent to every host: their names are
# options, their values travel over MPI's own connections. RANK: what each rank runs; on hosts with NPUs it moves to the
# cores beside its own.
mpirun_options() {
  local ranks=$1 program=$2 cores name
  command -v mpirun >/dev/null || die "mpirun was not found on PATH; scripts/setup installs Open MPI"
  [ -z "${RANK_TABLE_FILE:-}" ] || [ -n "${TABLE_HOSTS:-}" ] || echo "$(basename "$0"): RANK_TABLE_FILE=$RANK_TABLE_FILE is not" \
    "read: the allocation names the hosts, and HCCL's communicators are bootstrapped over MPI (docs/launch.md)" >&2
  cores=$(($(count_cores) / ranks))
  MPIRUN=(mpirun --allow-run-as-root)
  # Called by its path, mpirun also finds itself on other hosts, where that folder is on no PATH either.
  case $(command -v mpirun) in /usr/lib64/*) MPIRUN[0]=$(command -v mpirun) ;; esac
  if [ "$cores" -ge 1 ] && [ "$ranks" -gt 1 ]; then
    MPIRUN+=(--map-by "ppr:$ranks:node:pe=$cores" --bind-to core)
  else  # fewer cores than ranks: a waiting rank yields; or a single rank, which uses them all
    MPIRUN+=(--oversubscribe --map-by "ppr:$ranks:node" --bind-to none --mca mpi_yield_when_idle 1)
  fi
  RANK=("$launch_lib/bind_cores" --threads "$((cores > 0 ? cores : 1))" "$program")
  # Every rank's stdout looks like a terminal to it: only this script knows whether it ends on one.
  export TRIREME_TERMINAL=0
  export TRIREME_STDERR_TERMINAL=0
  if [ -t 2 ]; then export TRIREME_STDERR_TERMINAL=1; fi
  if [ -t 1 ]; then export TRIREME_TERMINAL=1 COLUMNS=${COLUMNS:-$(tput cols 2>/dev/null || echo 80)}; fi
  for name in $(compgen -e); do
    case $name in
      TRIREME_TOKEN) ;;  # for the scripts only
      HCCL_*|ASCEND_*|TRIREME_*|TWIN_*|TASK_QUEUE_ENABLE|CPU_AFFINITY_CONF|NCCL_*|CUDA_*|PYTORCH_*|OMP_*|GOMP_*|\
      HF_*|HUGGING_FACE_HUB_TOKEN|HUGGINGFACE_HUB_CACHE|TRANSFORMERS_OFFLINE|MODELSCOPE_*|USE_MODELSCOPE*|WANDB_*|SWANLAB_*|\
      MLFLOW_*|TRACKIO_*|\
      http_proxy|https_proxy|all_proxy|no_proxy|HTTP_PROXY|HTTPS_PROXY|ALL_PROXY|NO_PROXY|SSL_CERT_FILE|SSL_CERT_DIR|\
      PYTHONPATH|COLUMNS|LD_LIBRARY_PATH|PATH)
        MPIRUN+=(-x "$name") ;;
    esac
  done
}

# Runs a command as its own process group, so that Ctrl-C reaches only this script, which asks the ranks to stop; a
# second one, at least a second later, ends them. Returns the command's status; ASKED_BY is the first signal, or empty.
# PLAN, if not empty, is the command that prints the run's plan.
run_and_pass_signals() {
  ASKED_BY=
  local status=0 again asked_at= words explains
  exec {words}> >(exec "$launch_lib/explain_mpirun" "${PLAN[@]}")
  explains=$!
  setsid "$@" 2>&"$words" {words}>&- &
  local child=$!
  exec {words}>&-
  trap 'pass_signal INT' INT
  trap 'pass_signal TERM' TERM
  trap 'pass_signal USR1' USR1
  while :; do
    wait $child && status=0 || status=$?
    kill -0 $child 2>/dev/null && continue  # only a signal ended the wait
    [ $status -gt 128 ] || break
    # Its own status, or that of a wait which a signal ended just before the program did.
    wait $child 2>/dev/null && status=0 || { again=$?; [ $again = 127 ] || status=$again; }
    break
  done
  trap - INT TERM USR1
  local explained=0
  wait $explains || explained=$?  # the last messages
  if [ $status -gt 128 ] && [ $explained = 0 ] && [ -z "$asked_at" ]; then
    echo "$(basename "$0"): $(basename "$1") was ended by signal $((status - 128)); the same command resumes from the newest checkpoint" >&2
  fi
  return $status
}

pass_signal() { # SIGNAL; within run_and_pass_signals
  if [ -z "$asked_at" ]; then
    asked_at=$SECONDS
    ASKED_BY=$1
    kill -USR1 "$child" || true
  elif [ $((SECONDS - asked_at)) -ge 1 ]; then
    kill -TERM "$child" || true
  fi
} 2>/dev/null
