#!/bin/sh
# What libtorch_npu.so needs of CANN at load time, against what libascendcl.so exports: the functions of the wheel that
# is installed, and those that the later 2.7.1.postN wheels need besides (read from them with nm -D --undefined-only).
# usage: surface_test.sh libtorch_npu.so libascendcl.so
set -eu
needed=$(nm -D --undefined-only "$1" | awk '$2 ~ /^acl/ {sub(/@.*/, "", $2); print $2}' | sort -u)
count=$(echo "$needed" | wc -l)
if [ "$count" -lt 50 ]; then
  echo "only $count acl functions found in $1; wanted the wheel's 57"
  exit 1
fi
post4="MsprofGetHashId MsprofReportApi MsprofReportCompactInfo MsprofSysCycleTime aclrtMemExportToShareableHandle
  aclrtMemImportFromShareableHandle aclrtMemSetPidToShareableHandle rtDevBinaryRegister rtFunctionRegister rtKernelLaunch"
post8="MsprofRegisterCallback MsprofReportAdditionalInfo"
post11="aclrtBinaryLoadFromData aclrtGetFunctionAddr"
exported=$(nm -D --defined-only "$2" | awk '{print $3}' | sort -u)
missing=0
for name in $needed $post4 $post8 $post11; do
  if ! echo "$exported" | grep -qx "$name"; then
    echo "missing: $name"
    missing=1
  fi
done
[ "$missing" = 0 ] && echo "all $count acl functions that libtorch_npu needs are exported, and those of later wheels"
exit "$missing"
