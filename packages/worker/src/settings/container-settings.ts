import { GRACE_LIMITS } from '@longshore/common/capabilities';
import { matching } from '@longshore/common/settings/settings-reader';
import { listOf, oneOf, optional, text } from './setting-table.js';

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

/** Settings of what containers may and of what executes them. */
export const CONTAINER_SETTINGS = {
  ociRuntime: optional(
    'SERVICE_WORKER_OCI_RUNTIME',
    {
      allowed: 'a name of a runtime of 1 to 128 characters of A-Z a-z 0-9 . _ -',
      check: matching(/^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$/),
    },
    "OCI runtime of the runtime docker's containers, one that the engine has, such as runsc, kata or crun; when unset, the default one of the engine.",
  ),
  oldEngine: text(
    'SERVICE_WORKER_OLD_ENGINE',
    { default: 'warn', allowed: 'refuse or warn', check: oneOf('refuse', 'warn') },
    'Whether the worker refuses to start, or only warns, when its engine (docker) or a node of its cluster (kubernetes) has a version with known weaknesses.',
  ),
  maxGraceSeconds: {
    ...text(
      'SERVICE_WORKER_MAX_GRACE_S',
      {
        default: '300',
        allowed: `one of ${GRACE_LIMITS.join(', ')}`,
        check: (value) => GRACE_LIMITS.find((limit) => limit === Number(value)),
      },
      'Longest `stop_grace_s` of a run that this worker takes, in seconds: for so long an ended run may keep its memory and GPUs.',
    ),
    kind: 'integer',
  } as const,
  capabilities: text<readonly (typeof CONTAINER_CAPABILITIES)[number][]>(
    'SERVICE_WORKER_CAPABILITIES',
    {
      allowed: `a comma-separated list of ${CONTAINER_CAPABILITIES.join(', ')}`,
      check: listOf(CONTAINER_CAPABILITIES.length, oneOf(...CONTAINER_CAPABILITIES)),
      unset: [],
    },
    'Capabilities that the user root has in every container of the runtime docker, such as CHOWN,DAC_OVERRIDE for images that begin as root; when unset, none. No program gains others.',
  ),
} as const;
