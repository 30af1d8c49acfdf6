// Data types that newer HCCL releases declare and the headers of the torch_npu 2.7.1 wheel do not, so that
// programs that list them compile. The twin supports none of them; a call with one is refused by name.
#pragma once

static const HcclDataType HCCL_DATA_TYPE_INT128 = static_cast<HcclDataType>(12);
static const HcclDataType HCCL_DATA_TYPE_HIF8 = static_cast<HcclDataType>(14);
static const HcclDataType HCCL_DATA_TYPE_FP8E4M3 = static_cast<HcclDataType>(15);
static const HcclDataType HCCL_DATA_TYPE_FP8E5M2 = static_cast<HcclDataType>(16);
static const HcclDataType HCCL_DATA_TYPE_FP8E8M0 = static_cast<HcclDataType>(17);
