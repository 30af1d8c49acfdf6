# For scripts to source: one way to start ranks. `trireme_mpirun N COMMAND…` runs N ranks on this machine.
# Not for several hosts.
trireme_mpirun() {
  local ranks=$1
  shift
  if ! command -v mpirun >/dev/null; then
    echo "mpirun was not found on PATH; scripts/setup installs Open MPI (package openmpi-bin)" >&2
    return 2
  fi
  local options=(--allow-run-as-root --oversubscribe --quiet)
  if [ "$ranks" -gt "$(nproc)" ]; then
    # More ranks than cores: a rank that waits must let the others run.
    options+=(--bind-to none --mca mpi_yield_when_idle 1)
  elif [ "$ranks" = 1 ]; then
    options+=(--bind-to none)  # mpirun would pin a lone rank, and all its threads, to one core
  fi
  mpirun "${options[@]}" -n "$ranks" "$@"
}
