# For scripts/setup to source: which system packages the build needs, which of them are missing, and how they are installed,
# on systems with dpkg and apt (Debian, Ubuntu) and with rpm and dnf (openEuler, Fedora and their relatives). Elsewhere it
# names what is missing by what it is for. Not for Python's packages. The caller defines die.

# What it is for | how it is found on any system | Debian's packages | dnf's. A probe with a dot is a header, else a command.
# dnf's names are the same on openEuler 24.03 and Fedora but for two, which both provide by pkg-config's name.
NEEDED="\
a C++20 compiler such as GCC 11|g++|g++|gcc-c++
CMake 3.22 or newer|cmake|cmake|cmake
Ninja|ninja|ninja-build|ninja-build
ccache|ccache|ccache|ccache
Open MPI 4.1's mpirun|mpirun|openmpi-bin|openmpi
Open MPI 4.1's compiler wrappers and headers|mpicxx|libopenmpi-dev|openmpi-devel
Protobuf's compiler|protoc|protobuf-compiler|protobuf-compiler
Protobuf for C++|google/protobuf/message.h|libprotobuf-dev|protobuf-devel
HDF5|hdf5.h|libhdf5-dev|hdf5-devel
glog|glog/logging.h|libgoogle-glog-dev|glog-devel
gflags|gflags/gflags.h|libgflags-dev|gflags-devel
GoogleTest|gtest/gtest.h|libgtest-dev|gtest-devel
yaml-cpp|yaml-cpp/yaml.h|libyaml-cpp-dev|yaml-cpp-devel
nlohmann's JSON for C++|nlohmann/json.hpp|nlohmann-json3-dev|pkgconfig(nlohmann_json)
OpenSSL|openssl/ssl.h|libssl-dev|openssl-devel
RE2|re2/re2.h|libre2-dev|re2-devel
Intel's ISA-L|isa-l/crc.h|libisal-dev|pkgconfig(libisal)
xxHash|xxhash.h|libxxhash-dev|xxhash-devel
Zstandard|zstd.h|libzstd-dev|libzstd-devel
libjpeg|jpeglib.h|libjpeg-dev|libjpeg-turbo-devel
libpng|png.h|libpng-dev|libpng-devel
libwebp|webp/decode.h|libwebp-dev|libwebp-devel
Boost's headers|boost/version.hpp|libboost-dev|boost-devel
Python 3.10 or 3.11 with its headers and venv|python3|python3 python3-dev python3-venv|python3 python3-devel python3-pip
ip|ip|iproute2|iproute
lscpu|lscpu||util-linux
git|git|git|git"

# debian, dnf, or none of them.
package_system() {
  if command -v dpkg-query >/dev/null; then echo debian
  elif command -v rpm >/dev/null && command -v dnf >/dev/null; then echo dnf
  else echo none
  fi
}

system_name() { # as the system calls itself
  (. "${OS_RELEASE:-/etc/os-release}" 2>/dev/null && echo "${PRETTY_NAME:-this system}") || echo "this system"
}

needed_packages() { # SYSTEM: their names there, one per line
  local column=3
  [ "$1" = debian ] || column=4
  cut -d'|' -f "$column" <<<"$NEEDED" | tr ' ' '\n' | sed '/^$/d'
}

is_there() { # PROBE, on a system whose packages are not known
  case $1 in
    *.h|*.hpp) printf '#include <%s>\n' "$1" | "${CXX:-g++}" -std=c++20 -E -x c++ - >/dev/null 2>&1 ;;
    *) command -v "$1" >/dev/null ;;
  esac
}

# One per line: packages where their names are known, elsewhere what is missing in words, each with how it was looked for.
missing_packages() {
  local installed name purpose probe
  case $(package_system) in
    debian)
      installed=$(dpkg-query -W -f '${db:Status-Abbrev} ${Package}\n' 2>/dev/null | awk '$1 == "ii" {print $2}')
      comm -23 <(printf '%s\n' "${PACKAGES[@]}" | sort) <(sort -u <<<"$installed") ;;
    dnf)
      for name in "${PACKAGES[@]}"; do rpm -q --quiet --whatprovides "$name" >/dev/null 2>&1 || echo "$name"; done ;;
    none)
      while IFS='|' read -r purpose probe _; do is_there "$probe" || echo "$purpose ($probe)"; done <<<"$NEEDED" ;;
  esac
}

cargo_package() { # on Debian the distribution's newest: Debian has cargo-web, Ubuntu cargo-1.NN
  if [ "$(package_system)" = dnf ]; then
    echo cargo
    return
  fi
  { apt-cache pkgnames cargo-web; apt-cache pkgnames cargo-1.; echo cargo; } 2>/dev/null | sort -V | grep -E '^cargo(-web|-1\.[0-9]+)?$' |
    awk '$0 == "cargo-web" {web = 1} {last = $0} END {print web ? "cargo-web" : last}'
}

repositories_hint() { # where dnf's systems keep packages that their first repositories lack
  case $(. "${OS_RELEASE:-/etc/os-release}" 2>/dev/null && echo "${ID:-} ${ID_LIKE:-}") in
    *openEuler*) echo "on openEuler glog, gflags and nlohmann's JSON are in the repositories everything and EPOL: enable them" ;;
    *rhel*|*centos*) echo "on this system some are in the repositories CRB and EPEL: dnf config-manager --set-enabled crb && dnf install epel-release" ;;
    *) echo "enable the repositories that have them" ;;
  esac
}

install_packages() {
  local missing system as_root=()
  system=$(package_system)
  mapfile -t missing < <(missing_packages)
  if [ "$system" = none ]; then
    is_cargo || missing+=("cargo 1.85 or newer")
    [ ${#missing[@]} -eq 0 ] ||
      die "$(system_name) has neither apt nor dnf, so install by hand, then run scripts/setup again:$(printf ' %s,' "${missing[@]}" | sed 's/,$//')"
    return 0
  fi
  is_cargo || missing+=("$(cargo_package)")
  [ ${#missing[@]} -eq 0 ] && return
  echo "setup: installing system packages: ${missing[*]}"
  local install=(apt-get install)
  [ "$system" = debian ] || install=(dnf install)
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || die "not root and no sudo; ask an administrator for: ${install[*]} ${missing[*]}"
    as_root=(sudo)
  fi
  if [ "$system" = debian ]; then
    "${as_root[@]}" apt-get update -qq
    DEBIAN_FRONTEND=noninteractive "${as_root[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
  else
    "${as_root[@]}" dnf install -y -q "${missing[@]}" || die "dnf cannot install all of: ${missing[*]}; $(repositories_hint)"
  fi
  is_cargo || die "the cargo that $(system_name) has is older than 1.85; install a newer one with rustup (https://rustup.rs), then run scripts/setup again"
}
