import { GRACE_LIMITS, ulimitName, ULIMITS, type Ulimits } from '@longshore/common/capabilities';
import { matching, type SettingValue } from '@longshore/common/settings/settings-reader';
import { listOf, oneOf, optional, text } from './setting-table.js';

const parseUlimits = listOf(Object.keys(ULIMITS).length, (entry) => {
  const [, word = '', digits = ''] = /^([a-z]+)=(-1|[1-9][0-9]{0,15})$/.exec(entry) ?? [];
  const [name, value] = [ulimitName(word), Number(digits)];
  if (name === undefined) return undefined;
  const { least, most, unlimited } = ULIMITS[name];
  const isPower = value >= least && value <= most && Number.isInteger(Math.log2(value));
  return isPower || (unlimited && value === -1) ? ([name, value] as const) : undefined;
});

/** Undefined: not allowed; a name may be there once. */
function readUlimits(value: SettingValue): Ulimits | undefined {
  const entries = parseUlimits(value) ?? [];
  const names = new Set(entries.map(([name]) => name));
  return names.size > 0 && names.size === entries.length ? Object.fromEntries(entries) : undefined;
}

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
  onStop: text(
    'SERVICE_WORKER_ON_STOP',
    { default: 'drain', allowed: 'drain or leave', check: oneOf('drain', 'leave') },
    'What the runtime docker does with its containers when the worker shuts down: drain waits for them, and stops the rest after SERVICE_WORKER_DRAIN; leave, for an upgrade, ends at once and leaves them to the next process of the worker.',
  ),
  ulimits: text<Ulimits>(
    'SERVICE_WORKER_ULIMITS',
    {
      allowed:
        'a comma-separated list of nofile=, memlock=, stack= and core=, each with a power of two (nofile: from 1024 to 2^30; others, in bytes: from 65536 to 2^40) or, but for nofile, -1',
      check: readUlimits,
      unset: {},
    },
    'Most that runs may set as `ulimits` with the runtime docker, such as nofile=65536,memlock=-1; -1: no limit. When unset, this worker takes no such runs.',
  ),
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
