import { listOf, oneOf, text } from './setting-table.js';

/** What an operator may give containers: Docker's default. */
const CONTAINER_CAPABILITIES = [
  'AUDIT_WRITE',
  'CHOWN',
  'DAC_OVERRIDE',
  'FOWNER',
  'FSETID',
  'KILL',
  'MKNOD',
  'NET_BIND_SERVICE',
  'NET_RAW',
  'SETFCAP',
  'SETGID',
  'SETPCAP',
  'SETUID',
  'SYS_CHROOT',
] as const;

/** SERVICE_WORKER_CAPABILITIES. */
export const CAPABILITIES = text<readonly (typeof CONTAINER_CAPABILITIES)[number][]>(
  'SERVICE_WORKER_CAPABILITIES',
  {
    allowed: `a comma-separated list of ${CONTAINER_CAPABILITIES.join(', ')}`,
    check: listOf(CONTAINER_CAPABILITIES.length, oneOf(...CONTAINER_CAPABILITIES)),
    unset: [],
  },
  'Capabilities that the user root has in every container of the runtime docker, such as CHOWN,DAC_OVERRIDE for images that begin as root; when unset, none. No program gains others.',
);
