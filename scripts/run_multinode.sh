#!/usr/bin/env bash
# Trains on several nodes, which all have this repository, built, at the same path. Two modes:
#   scripts/run_multinode.sh --hostfile HOSTS RUN.yaml     once, on the first node; mpirun reaches the others by ssh
#   NNODES=2 NODE_RANK=0 MASTER_ADDR=IP TRIREME_TOKEN=WORD scripts/run_multinode.sh RUN.yaml
#                                                          on every node, with its NODE_RANK, as for torchrun; no ssh
# HOSTS has one host per line, or is a rank table (hccl.json). RANK_TABLE_FILE in the environment of every node names a
# table that says what NNODES, NODE_RANK and MASTER_ADDR would.
# MASTER_PORT (29500) must be free on node 0. NPROC_PER_NODE: ranks per node, by default its devices. Ctrl-C or SIGTERM on
# any node: the run saves and stops.
set -euo pipefail
. "$(dirname "$0")/lib/launch.sh"
here=$(cd "$(dirname "$0")" && pwd)

number() { # NAME: its value is a whole number
  [[ ${!1:-} =~ ^[0-9]+$ ]] || die "$1 is '${!1:-}'; set a whole number"
}

hosts=
if [ "${1:-}" = --hostfile ]; then
  hosts=${2:-}
  [ -f "$hosts" ] || die "--hostfile: '$hosts' is not a file; wanted one host per line"
  shift 2
fi
[ $# -gt 0 ] || die "usage: scripts/run_multinode.sh [--hostfile HOSTS] RUN.yaml"
program=$(find_program)
if [ -n "$hosts" ] && [ -n "${RANK_TABLE_FILE:-}" ]; then
  die "--hostfile $hosts and RANK_TABLE_FILE=$RANK_TABLE_FILE both name the hosts; leave one out"
elif [ -n "$hosts" ] && grep -qm1 '^[[:space:]]*{' "$hosts"; then
  use_rank_table "$hosts"
  [ "$TABLE_NODE" = 0 ] ||
    die "--hostfile $hosts: this host has index $TABLE_NODE in the rank table; start on its first, ${TABLE_HOSTS%%,*}"
  hosts=$(mktemp)
  trap 'rm -f "$hosts"' EXIT
  tr ',' '\n' <<<"$TABLE_HOSTS" >"$hosts"
elif [ -n "${RANK_TABLE_FILE:-}" ]; then
  use_rank_table "$RANK_TABLE_FILE"
  agrees() { # NAME VALUE: unset, or the same
    [ "${!1:-$2}" = "$2" ] || die "$1 is ${!1}, but by the rank table $RANK_TABLE_FILE it is $2; unset one"
    declare -g "$1=$2"
  }
  agrees NNODES "$TABLE_SERVERS"
  agrees NODE_RANK "$TABLE_NODE"
  MASTER_ADDR=${MASTER_ADDR:-${TABLE_HOSTS%%,*}}  # another of node 0's addresses, as a cluster's operator sets it, is as good
  [ "$TABLE_SERVERS" -gt 1 ] || exec "$here/run.sh" "$@"
fi
ranks=$(ranks_a_host "$program")
mpirun_options "$ranks" "$program"
if [ -n "${HCCL_SOCKET_IFNAME:-}" ]; then  # MPI uses the same network as HCCL
  network=${HCCL_SOCKET_IFNAME#=}
  [[ $network == ^* ]] && key=exclude || key=include
  network=${network#^}
  MPIRUN+=(--mca "oob_tcp_if_$key" "$network" --mca "btl_tcp_if_$key" "$network")
fi

if [ -n "$hosts" ]; then
  nodes=$(grep -cvE '^[[:space:]]*(#|$)' "$hosts") || die "--hostfile $hosts names no host"
  twice=$(awk '!/^[[:space:]]*(#|$)/ && seen[$1]++ {print $1; exit}' "$hosts")
  [ -z "$twice" ] || die "--hostfile $hosts names $twice twice; list each host once, NPROC_PER_NODE sets its ranks"
  PLAN=("$program" train "$@" --set 'data.train=[]' --dry-run --world $((nodes * ranks)))
  run_and_pass_signals "${MPIRUN[@]}" --hostfile "$hosts" -n $((nodes * ranks)) "${RANK[@]}" train "$@"
  exit
fi
[ -n "${NNODES:-}" ] ||
  die "use --hostfile HOSTS, or set NNODES, NODE_RANK, MASTER_ADDR and TRIREME_TOKEN on every node"
number NNODES
number NODE_RANK
MASTER_PORT=${MASTER_PORT:-29500}
number MASTER_PORT
[ "$NODE_RANK" -lt "$NNODES" ] || die "NODE_RANK is $NODE_RANK; with NNODES = $NNODES set 0 to $((NNODES - 1))"
[ -n "${MASTER_ADDR:-}" ] || die "MASTER_ADDR is not set; set the address of node 0"
[ -n "${TRIREME_TOKEN:-}" ] ||
  die "TRIREME_TOKEN is not set; choose a secret and set it on every node: anyone who knows it can start programs there"
agent=("$here/lib/start_agent")
common=(--address "$MASTER_ADDR" --port "$MASTER_PORT" --nodes "$NNODES" --node "$NODE_RANK" --ranks "$ranks")
if [ "$NODE_RANK" = 0 ]; then
  PLAN=("$program" train "$@" --set 'data.train=[]' --dry-run --world $((NNODES * ranks)))
  run_and_pass_signals "${agent[@]}" serve "${common[@]}" -- "${MPIRUN[@]}" -n $((NNODES * ranks)) "${RANK[@]}" train "$@"
else
  run_and_pass_signals "${agent[@]}" wait "${common[@]}"
fi
