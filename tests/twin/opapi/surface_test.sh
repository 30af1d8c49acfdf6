#!/usr/bin/env bash
# Is libopapi.so what the torch_npu wheel looks for? Every operator has both of its functions and a name that the wheel
# knows, so that a typo shows; the functions of the aclnn objects are exported; libtorch is used, not bundled.
# usage: surface_test.sh libtorch_npu.so libopapi.so
set -euo pipefail
export LC_ALL=C
wheel=$1
library=$2
failed=0
fail() {
  echo "FAILED: $*"
  failed=1
}

exported=$(nm -D --defined-only "$library" | awk '$2 ~ /^[TiI]$/ {print $3}' | sort -u)
later=aclnnSvd  # which only later wheels know
known=$({ grep -aoE 'aclnn[A-Za-z0-9]+' "$wheel"; echo "$later"; } | sort -u)
operators=$(grep -E '^aclnn' <<<"$exported" | sed 's/GetWorkspaceSize$//' | sort -u)
both=$(sed 'p; s/$/GetWorkspaceSize/' <<<"$operators" | sort -u)
for symbol in $(comm -23 <(echo "$both") <(echo "$exported")); do
  fail "$symbol is not exported, though its counterpart is"
done
for name in $(comm -23 <(echo "$operators") <(echo "$known")); do fail "the wheel does not know $name"; done
count=$(wc -w <<<"$operators")
[ "$count" -ge 400 ] || fail "only $count operators"

for name in aclCreateTensor aclCreateScalar aclCreateIntArray aclCreateFloatArray aclCreateBoolArray aclCreateTensorList \
            aclCreateScalarList aclDestroyTensor aclDestroyScalar aclDestroyIntArray aclDestroyFloatArray \
            aclDestroyBoolArray aclDestroyTensorList aclDestroyScalarList aclGetViewShape twinOperatorName \
            twinOperatorCalls twinOperatorLargestBytes; do
  grep -qx "$name" <<<"$exported" || fail "$name is not exported"
done
stray=$(grep -vE '^(acl|twin)[A-Za-z0-9]+$' <<<"$exported" || true)
[ -z "$stray" ] || fail "exports more than the interface: $(head -3 <<<"$stray" | tr '\n' ' ')"

dynamic=$(readelf -d "$library")
grep -q 'NEEDED.*libtorch_cpu.so' <<<"$dynamic" || fail "does not use libtorch_cpu.so"
! grep -qE 'R(UN)?PATH' <<<"$dynamic" || fail "has a built-in library path; it must use the program's libtorch"
[ "$failed" = 0 ] && echo "ok: $count operators, each known to the wheel"
exit "$failed"
