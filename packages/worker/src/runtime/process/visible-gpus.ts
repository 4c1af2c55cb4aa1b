/** Programs that use CUDA see only these GPUs, numbered as nvidia-smi numbers them; without any, the variables are the run's. */
export function visibleGpus(ids: readonly number[]): NodeJS.ProcessEnv {
  if (ids.length === 0) return {};
  return { CUDA_DEVICE_ORDER: 'PCI_BUS_ID', CUDA_VISIBLE_DEVICES: ids.join(',') };
}
