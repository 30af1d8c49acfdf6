# For scripts to source: a single way to start ranks. `trireme_mpirun N COMMAND…` runs N ranks on this machine.
# Not for several hosts.

# openEuler and Fedora keep Open MPI in a folder that is on PATH only after `module load mpi`.
if ! command -v mpirun >/dev/null && [ -x "/usr/lib64/openmpi/bin/mpirun" ]; then
  export PATH="$PATH:/usr/lib64/openmpi/bin"
fi

trireme_mpirun() {
  local ranks=$1
  shift
  if ! command -v mpirun >/dev/null; then
    echo "mpirun was not found on PATH; scripts/setup installs Open MPI (package openmpi-bin)" >&2
    return 2
  fi
  local options=(--allow-run-as-root --oversubscribe) explain
  explain=$(dirname "${BASH_SOURCE[0]}")/explain_mpirun
  if [ "$ranks" -gt "$(nproc)" ]; then
    # More ranks than cores: a waiting rank must yield to the others.
    options+=(--bind-to none --mca mpi_yield_when_idle 1)
  elif [ "$ranks" = 1 ]; then
    options+=(--bind-to none)  # mpirun would pin a single rank, and all its threads, to one core
  fi
  (
    set -o pipefail  # mpirun's status is what counts
    { mpirun "${options[@]}" -n "$ranks" "$@" 2>&1 >&4 4>&- | { "$explain" 2>&3 || true; } 4>&-; } 3>&2 4>&1
  )
}
