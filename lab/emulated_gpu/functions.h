/* Every function that the stand-ins have. The fault file may name these and no others, so that a
 * misspelt fault is refused instead of never happening.
 *
 * X(name in faults, C symbol, CUDA version that introduced the symbol). cuGetProcAddress gives the
 * newest symbol of a name that is no newer than what was asked for.
 */
#ifndef GDRCHECK_EMULATED_FUNCTIONS_H
#define GDRCHECK_EMULATED_FUNCTIONS_H

#define EMULATED_CUDA_FUNCTIONS(X)                                                    \
    X(cuInit, cuInit, 2000)                                                           \
    X(cuDriverGetVersion, cuDriverGetVersion, 2020)                                   \
    X(cuGetErrorName, cuGetErrorName, 6000)                                           \
    X(cuGetErrorString, cuGetErrorString, 6000)                                       \
    X(cuDeviceGetCount, cuDeviceGetCount, 2000)                                       \
    X(cuDeviceGet, cuDeviceGet, 2000)                                                 \
    X(cuDeviceGetName, cuDeviceGetName, 2000)                                         \
    X(cuDeviceGetUuid, cuDeviceGetUuid, 9020)                                         \
    X(cuDeviceGetUuid, cuDeviceGetUuid_v2, 11040)                                     \
    X(cuDeviceGetPCIBusId, cuDeviceGetPCIBusId, 4010)                                 \
    X(cuDeviceGetAttribute, cuDeviceGetAttribute, 2000)                               \
    X(cuDeviceTotalMem, cuDeviceTotalMem_v2, 3020)                                    \
    X(cuDevicePrimaryCtxRetain, cuDevicePrimaryCtxRetain, 7000)                       \
    X(cuDevicePrimaryCtxRelease, cuDevicePrimaryCtxRelease_v2, 11000)                 \
    X(cuDevicePrimaryCtxSetFlags, cuDevicePrimaryCtxSetFlags_v2, 11000)               \
    X(cuCtxSetCurrent, cuCtxSetCurrent, 4000)                                         \
    X(cuCtxGetCurrent, cuCtxGetCurrent, 4000)                                         \
    X(cuCtxPushCurrent, cuCtxPushCurrent_v2, 4000)                                    \
    X(cuCtxPopCurrent, cuCtxPopCurrent_v2, 4000)                                      \
    X(cuCtxGetDevice, cuCtxGetDevice, 2000)                                           \
    X(cuCtxSynchronize, cuCtxSynchronize, 2000)                                       \
    X(cuDeviceCanAccessPeer, cuDeviceCanAccessPeer, 4000)                             \
    X(cuDeviceGetP2PAttribute, cuDeviceGetP2PAttribute, 8000)                         \
    X(cuCtxEnablePeerAccess, cuCtxEnablePeerAccess, 4000)                             \
    X(cuCtxDisablePeerAccess, cuCtxDisablePeerAccess, 4000)                           \
    X(cuMemcpyPeer, cuMemcpyPeer, 4000)                                               \
    X(cuMemcpyPeerAsync, cuMemcpyPeerAsync, 4000)                                     \
    X(cuMemGetInfo, cuMemGetInfo_v2, 3020)                                            \
    X(cuMemAlloc, cuMemAlloc_v2, 3020)                                                \
    X(cuMemFree, cuMemFree_v2, 3020)                                                  \
    X(cuMemAllocManaged, cuMemAllocManaged, 6000)                                     \
    X(cuMemHostAlloc, cuMemHostAlloc, 2020)                                           \
    X(cuMemFreeHost, cuMemFreeHost, 2000)                                             \
    X(cuMemHostRegister, cuMemHostRegister_v2, 6050)                                  \
    X(cuMemHostUnregister, cuMemHostUnregister, 4000)                                 \
    X(cuMemHostGetDevicePointer, cuMemHostGetDevicePointer_v2, 3020)                  \
    X(cuMemcpyHtoD, cuMemcpyHtoD_v2, 3020)                                            \
    X(cuMemcpyDtoH, cuMemcpyDtoH_v2, 3020)                                            \
    X(cuMemcpyDtoD, cuMemcpyDtoD_v2, 3020)                                            \
    X(cuMemcpyHtoDAsync, cuMemcpyHtoDAsync_v2, 3020)                                  \
    X(cuMemcpyDtoHAsync, cuMemcpyDtoHAsync_v2, 3020)                                  \
    X(cuMemcpyDtoDAsync, cuMemcpyDtoDAsync_v2, 3020)                                  \
    X(cuMemsetD8, cuMemsetD8_v2, 3020)                                                \
    X(cuMemsetD32, cuMemsetD32_v2, 3020)                                              \
    X(cuMemsetD8Async, cuMemsetD8Async, 3020)                                         \
    X(cuMemsetD32Async, cuMemsetD32Async, 3020)                                       \
    X(cuPointerGetAttribute, cuPointerGetAttribute, 4000)                             \
    X(cuPointerGetAttributes, cuPointerGetAttributes, 7000)                           \
    X(cuPointerSetAttribute, cuPointerSetAttribute, 6000)                             \
    X(cuMemGetAddressRange, cuMemGetAddressRange_v2, 3020)                            \
    X(cuMemGetAllocationGranularity, cuMemGetAllocationGranularity, 10020)            \
    X(cuMemCreate, cuMemCreate, 10020)                                                \
    X(cuMemRelease, cuMemRelease, 10020)                                              \
    X(cuMemAddressReserve, cuMemAddressReserve, 10020)                                \
    X(cuMemAddressFree, cuMemAddressFree, 10020)                                      \
    X(cuMemMap, cuMemMap, 10020)                                                      \
    X(cuMemUnmap, cuMemUnmap, 10020)                                                  \
    X(cuMemSetAccess, cuMemSetAccess, 10020)                                          \
    X(cuMemGetHandleForAddressRange, cuMemGetHandleForAddressRange, 11070)            \
    X(cuFlushGPUDirectRDMAWrites, cuFlushGPUDirectRDMAWrites, 11030)                  \
    X(cuModuleLoadData, cuModuleLoadData, 2000)                                       \
    X(cuModuleLoadDataEx, cuModuleLoadDataEx, 2010)                                   \
    X(cuModuleUnload, cuModuleUnload, 2000)                                           \
    X(cuModuleGetFunction, cuModuleGetFunction, 2000)                                 \
    X(cuLaunchKernel, cuLaunchKernel, 4000)                                           \
    X(cuStreamCreate, cuStreamCreate, 2000)                                           \
    X(cuStreamDestroy, cuStreamDestroy_v2, 4000)                                      \
    X(cuStreamSynchronize, cuStreamSynchronize, 2000)                                 \
    X(cuEventCreate, cuEventCreate, 2000)                                             \
    X(cuEventRecord, cuEventRecord, 2000)                                             \
    X(cuEventSynchronize, cuEventSynchronize, 2000)                                   \
    X(cuEventElapsedTime, cuEventElapsedTime, 2000)                                   \
    X(cuEventElapsedTime, cuEventElapsedTime_v2, 12080)                               \
    X(cuEventDestroy, cuEventDestroy_v2, 4000)

/* Y(name): the functions of the verbs preload and of libnvidia-ml that faults may name. */
#define EMULATED_VERBS_FUNCTIONS(Y) \
    Y(ibv_reg_mr)                   \
    Y(ibv_reg_dmabuf_mr)

#define EMULATED_NVML_FUNCTIONS(Y) \
    Y(nvmlInit_v2) \
    Y(nvmlShutdown) \
    Y(nvmlSystemGetDriverVersion) \
    Y(nvmlSystemGetCudaDriverVersion_v2) \
    Y(nvmlSystemGetConfComputeState) \
    Y(nvmlDeviceGetCount_v2) \
    Y(nvmlDeviceGetHandleByIndex_v2) \
    Y(nvmlDeviceGetHandleByPciBusId_v2) \
    Y(nvmlDeviceGetPciInfo_v3) \
    Y(nvmlDeviceGetUUID) \
    Y(nvmlDeviceGetName) \
    Y(nvmlDeviceGetMemoryInfo) \
    Y(nvmlDeviceGetBAR1MemoryInfo) \
    Y(nvmlDeviceGetMigMode) \
    Y(nvmlDeviceGetComputeRunningProcesses_v3) \
    Y(nvmlDeviceGetComputeMode) \
    Y(nvmlDeviceGetGpuFabricInfoV) \
    Y(nvmlDeviceGetVirtualizationMode) \
    Y(nvmlDeviceGetHandleByUUID) \
    Y(nvmlDeviceGetVbiosVersion) \
    Y(nvmlDeviceGetBoardPartNumber) \
    Y(nvmlDeviceGetGspFirmwareVersion) \
    Y(nvmlDeviceGetPersistenceMode) \
    Y(nvmlDeviceGetEccMode) \
    Y(nvmlDeviceGetTotalEccErrors) \
    Y(nvmlDeviceGetSramEccErrorStatus) \
    Y(nvmlDeviceGetRemappedRows) \
    Y(nvmlDeviceGetRetiredPages) \
    Y(nvmlDeviceGetRetiredPages_v2) \
    Y(nvmlDeviceGetRetiredPagesPendingStatus) \
    Y(nvmlDeviceGetFieldValues) \
    Y(nvmlDeviceGetClockInfo) \
    Y(nvmlDeviceGetMaxClockInfo) \
    Y(nvmlDeviceGetCurrentClocksEventReasons) \
    Y(nvmlDeviceGetCurrentClocksThrottleReasons) \
    Y(nvmlDeviceGetPowerUsage) \
    Y(nvmlDeviceGetPowerManagementLimit) \
    Y(nvmlDeviceGetPowerManagementDefaultLimit) \
    Y(nvmlDeviceGetPowerManagementLimitConstraints) \
    Y(nvmlDeviceGetEnforcedPowerLimit) \
    Y(nvmlDeviceGetTemperature) \
    Y(nvmlDeviceGetTemperatureV) \
    Y(nvmlDeviceGetTemperatureThreshold) \
    Y(nvmlDeviceGetCurrPcieLinkGeneration) \
    Y(nvmlDeviceGetCurrPcieLinkWidth) \
    Y(nvmlDeviceGetMaxPcieLinkGeneration) \
    Y(nvmlDeviceGetMaxPcieLinkWidth) \
    Y(nvmlDeviceGetGpuMaxPcieLinkGeneration) \
    Y(nvmlDeviceGetPcieReplayCounter) \
    Y(nvmlDeviceGetNvLinkState) \
    Y(nvmlDeviceGetNvLinkVersion) \
    Y(nvmlDeviceGetNvLinkCapability) \
    Y(nvmlDeviceGetNvLinkRemoteDeviceType) \
    Y(nvmlDeviceGetNvLinkRemotePciInfo_v2) \
    Y(nvmlDeviceGetNvLinkErrorCounter) \
    Y(nvmlDeviceGetP2PStatus) \
    Y(nvmlDeviceGetTopologyCommonAncestor) \
    Y(nvmlDeviceGetSupportedEventTypes) \
    Y(nvmlDeviceRegisterEvents) \
    Y(nvmlEventSetCreate) \
    Y(nvmlEventSetWait_v2) \
    Y(nvmlEventSetFree)

/* Faults cannot touch these: they are how a fault is told. */
#define EMULATED_FUNCTIONS_WITHOUT_FAULTS(Y) \
    Y(cuGetErrorName)                        \
    Y(cuGetErrorString)

/* Calls of these concern no GPU, so [faults gpu N] cannot name them. */
#define EMULATED_FUNCTIONS_WITHOUT_GPU(Y) \
    Y(cuInit)                             \
    Y(cuDriverGetVersion)                 \
    Y(cuDeviceGetCount)                   \
    Y(cuCtxGetCurrent)                    \
    Y(cuCtxPushCurrent)                   \
    Y(cuCtxPopCurrent)                    \
    Y(nvmlInit_v2)                        \
    Y(nvmlShutdown)                       \
    Y(nvmlSystemGetDriverVersion)         \
    Y(nvmlSystemGetCudaDriverVersion_v2)  \
    Y(nvmlSystemGetConfComputeState)      \
    Y(nvmlDeviceGetCount_v2)              \
    Y(nvmlEventSetCreate)                 \
    Y(nvmlEventSetWait_v2)                \
    Y(nvmlEventSetFree)

#endif
