# For scripts/setup to source: whether this host can build at all, before anything is downloaded. One sentence each about what
# is wrong and what to do. The caller defines die.
GLIBC_WANTED=2.28  # torch's wheels are manylinux_2_28
PYTHONS="3.11 3.10"  # for which torch_npu 2.7.1 has wheels, newest first

not_older() { # VERSION WANTED
  [ "$(printf '%s\n%s\n' "$2" "$1" | sort -V | head -1)" = "$2" ]
}

check_host() {
  local glibc
  case $(uname -m) in
    x86_64|aarch64) ;;
    *) die "this machine is $(uname -m); torch $TORCH and torch_npu have wheels for x86_64 and aarch64 only" ;;
  esac
  glibc=$(getconf GNU_LIBC_VERSION 2>/dev/null | awk '{print $2}' || true)
  [ -n "$glibc" ] ||
    die "$(system_name) has no glibc (another C library, such as musl), and torch's wheels need one; use a system or container with glibc $GLIBC_WANTED or newer"
  not_older "$glibc" "$GLIBC_WANTED" ||
    die "$(system_name) has glibc $glibc, and torch $TORCH needs $GLIBC_WANTED; use a newer system, such as openEuler 24.03, or a container of one"
}

# After the packages: the compiler that they brought.
check_compiler() {
  local version
  version=$("${CXX:-g++}" -dumpfullversion 2>/dev/null) || return 0  # another compiler; CMake judges it
  not_older "$version" 11 || die "${CXX:-g++} is GCC $version, and the sources need 11 or newer; install one and set CXX to it, such as CXX=/opt/rh/gcc-toolset-14/root/usr/bin/g++"
}

find_python() { # the system's if it is one of PYTHONS, else another that is installed
  local python version wanted
  local system=${SYSTEM_PYTHON:-/usr/bin/python3}
  for python in "$system" $(for wanted in $PYTHONS; do command -v "python$wanted" || true; done); do
    version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null) || continue
    for wanted in $PYTHONS; do
      if [ "$version" = "$wanted" ]; then
        echo "$python"
        return
      fi
    done
  done
  die "Python ${PYTHONS// / or } was not found ($system is $("$system" --version 2>&1)), and torch_npu $TORCH_NPU has wheels for no other;" \
    "install package python${PYTHONS%% *}, or put one of uv's on PATH (uv python install ${PYTHONS%% *})"
}

need_venv() { # distributions split it from Python, and tell so in a paragraph
  "$PYTHON" -c 'import ensurepip, venv' 2>/dev/null ||
    die "$PYTHON cannot make environments, since it lacks venv or ensurepip; install python3-venv, or put another Python" \
      "${PYTHONS// / or } first on PATH"
}

need_space() { # GIB, in the folder of the clone
  local free
  free=$(df -Pk . | awk 'NR == 2 {print int($4 / 1048576)}')
  [ "$free" -ge "$1" ] || die "$PWD has $free GiB left, and the Python environment needs $1; make room, or clone to another disk"
}
