#!/usr/bin/env bash
# Is libhccl.so a drop-in? It exports every Hccl symbol that the wheel's libtorch_npu.so links or looks up and no internal
# one, and a program written for Ascend compiles, links with Huawei's library names and runs on 2 ranks.
# usage: conformance_symbols_test.sh REPOSITORY LIBRARY_DIRECTORY MPIRUN...
set -euo pipefail
root=$1
libraries=$2
shift 2
here=$(cd "$(dirname "$0")" && pwd)
wheel="$root/.torch_npu/torch_npu"
failed=0
fail() {
  echo "FAILED: $*"
  failed=1
}

exported=$(nm -D --defined-only "$libraries/libhccl.so" | awk '{print $3}')
need() { grep -qx "$1" <<<"$exported" || fail "libhccl.so does not export $1 ($2)"; }

linked=$(nm -D --undefined-only "$wheel/lib/libtorch_npu.so" | awk '$2 ~ /^Hccl/ {print $2}')
[ "$(wc -w <<<"$linked")" -eq 10 ] || fail "libtorch_npu.so links $(wc -w <<<"$linked") Hccl symbols; 10 were expected"
for symbol in $linked; do need "$symbol" "linked by libtorch_npu.so"; done

for symbol in $(grep -oE 'LOAD_FUNCTION\(Hccl[A-Za-z]+' "$wheel/include/torch_npu/csrc/distributed/HcclCompile.h" |
                cut -d'(' -f2) HcclGetCommName HcclCommResume HcclCommSetMemoryRange HcclCommUnsetMemoryRange \
                HcclCommActivateCommMemory HcclCommDeactivateCommMemory; do
  need "$symbol" "looked up by libtorch_npu.so"
done

# Declared by the header (except inline functions), or exported by Huawei's library without a declaration.
for symbol in $(grep -oE '\bextern (HcclResult|uint32_t) Hccl[A-Za-z]+' \
                "$wheel/include/third_party/hccl/inc/hccl/hccl.h" | awk '{print $3}') \
              HcclBarrier HcclGetErrorString HcclGetRankId HcclGetRankSize HcclGetConfig HcclCommSuspend \
              HcclAlltoAllVC; do
  need "$symbol" "part of HCCL's interface"
done

stray=$(grep -vE '^(Hccl[A-Za-z0-9]+|HCCL_[A-Z0-9_.]+)$' <<<"$exported" || true)
[ -z "$stray" ] || fail "libhccl.so exports more than HCCL's interface: $(head -3 <<<"$stray" | tr '\n' ' ')"

for name in ascendcl hccl acl_rt msprofiler; do
  [ -e "$libraries/lib$name.so" ] || fail "no lib$name.so in $libraries"
done
[ "$failed" -eq 0 ] || exit 1

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
set +u
. "$root/scripts/twin-env"
set -u
# The build under test, which need not be the one that twin-env points to.
export LIBRARY_PATH="$libraries:$LIBRARY_PATH" LD_LIBRARY_PATH="$libraries:$LD_LIBRARY_PATH"
read -ra mpi_compile <<<"$(mpicxx --showme:compile)"
read -ra mpi_link <<<"$(mpicxx --showme:link)"
g++ -std=c++14 -O2 -DOMPI_SKIP_MPICXX "${mpi_compile[@]}" "$here/conformance_benchmark_program.cc" -o "$work/benchmark" \
  -lascendcl -lhccl -lacl_rt -lmsprofiler "${mpi_link[@]}"
output=$("$@" -n 2 "$work/benchmark")
echo "$output"
[ "$(grep -c success <<<"$output")" -eq 11 ] || fail "expected 11 verified sizes"
exit "$failed"
