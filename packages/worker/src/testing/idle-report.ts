import type { HeartbeatReport } from '../service-api/service-api.js';

/** The heartbeat of a worker that has nothing and does nothing. */
export const IDLE_REPORT: HeartbeatReport = {
  workerId: 'w',
  resources: { cpuCores: 1, ramMb: 1, gpus: [] },
  load: null,
  tags: [],
  capabilities: [],
  notClaiming: [],
  runningOps: [],
};
