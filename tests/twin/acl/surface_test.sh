#!/bin/sh
# What libtorch_npu.so needs from ACL at load time, against what libascendcl.so exports.
# usage: surface_test.sh libtorch_npu.so libascendcl.so
set -eu
needed=$(nm -D --undefined-only "$1" | awk '$2 ~ /^acl/ {sub(/@.*/, "", $2); print $2}' | sort -u)
exported=$(nm -D --defined-only "$2" | awk '{print $3}' | sort -u)
count=$(echo "$needed" | wc -l)
if [ "$count" -lt 50 ]; then
  echo "only $count acl functions found in $1; wanted the wheel's 57"
  exit 1
fi
missing=0
for name in $needed; do
  if ! echo "$exported" | grep -qx "$name"; then
    echo "missing: $name"
    missing=1
  fi
done
[ "$missing" = 0 ] && echo "all $count acl functions that libtorch_npu needs are exported"
exit "$missing"
