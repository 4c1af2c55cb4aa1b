/**
 * The variables of service, worker, command line and conformance kit, and those of containers: programs share environments and
 * files `.env`. `test/integration/files/known-variables.spec.ts` compares them with the tables of settings.
 */
export const KNOWN_VARIABLES: readonly string[] = [
  'SERVICE_API_KEY',
  'SERVICE_API_KEYS',
  'SERVICE_API_KEYS_FILE',
  'SERVICE_API_KEY_FILE',
  'SERVICE_AUDIT_RETENTION_DAYS',
  'SERVICE_AUTH_FAILURE_LIMIT',
  'SERVICE_BODY_BYTES',
  'SERVICE_BODY_BYTES_PER_KEY',
  'SERVICE_CONNECTION_REQUESTS',
  'SERVICE_CPU',
  'SERVICE_DATA_DIR',
  'SERVICE_DB_POOL_SIZE',
  'SERVICE_EXTENSIONS',
  'SERVICE_FEED_ENABLED',
  'SERVICE_FEED_RETENTION_DAYS',
  'SERVICE_FIT_RESERVE_AFTER',
  'SERVICE_HOST',
  'SERVICE_INPUT_PATH',
  'SERVICE_JOURNAL_GROUP_BYTES',
  'SERVICE_JOURNAL_WAITING',
  'SERVICE_JOURNAL_WAITING_BYTES',
  'SERVICE_JOURNAL_WAITING_BYTES_PER_KEY',
  'SERVICE_JOURNAL_WAITING_PER_KEY',
  'SERVICE_LOG_LEVEL',
  'SERVICE_LOG_LIMIT_BYTES',
  'SERVICE_LOG_SEARCHES',
  'SERVICE_LOG_SEARCHES_PER_KEY',
  'SERVICE_LOSS_PATIENCE',
  'SERVICE_MAX_ANSWER_BYTES',
  'SERVICE_MAX_ATTEMPT_EVENTS',
  'SERVICE_MAX_ATTEMPT_EVENT_BYTES',
  'SERVICE_MAX_BODY_BYTES',
  'SERVICE_MAX_BULK_OPERATIONS_PER_KEY',
  'SERVICE_MAX_BULK_RUNS_PER_KEY',
  'SERVICE_MAX_CONNECTIONS',
  'SERVICE_MAX_DEFINITION_BYTES',
  'SERVICE_MAX_DEFINITION_VERSIONS',
  'SERVICE_MAX_RECLAIMS',
  'SERVICE_MAX_WORKERS',
  'SERVICE_MAX_WORKERS_PER_KEY',
  'SERVICE_MAX_WORKER_BYTES',
  'SERVICE_OUTPUT_PATH',
  'SERVICE_PORT',
  'SERVICE_RAM_MB',
  'SERVICE_RATE_LIMIT',
  'SERVICE_READERS',
  'SERVICE_READERS_PER_KEY',
  'SERVICE_REAPER_INTERVAL',
  'SERVICE_RELOAD',
  'SERVICE_RUN_ATTEMPT',
  'SERVICE_RUN_ID',
  'SERVICE_RUN_RETENTION_DAYS',
  'SERVICE_SCHEDULER',
  'SERVICE_SECRETS_KEY',
  'SERVICE_SECRETS_KEY_FILE',
  'SERVICE_UNREAD_BYTES',
  'SERVICE_URL',
  'SERVICE_WAITING_CLAIMS',
  'SERVICE_WAITING_CLAIMS_PER_KEY',
  'SERVICE_WORKERS',
  'SERVICE_WORKER_CAPABILITIES',
  'SERVICE_WORKER_COMMAND',
  'SERVICE_WORKER_CPU',
  'SERVICE_WORKER_DEPLOYMENT',
  'SERVICE_WORKER_DRAIN',
  'SERVICE_WORKER_EVENT_RATE',
  'SERVICE_WORKER_GPUS',
  'SERVICE_WORKER_HEALTH_FILE',
  'SERVICE_WORKER_ID',
  'SERVICE_WORKER_IMAGES',
  'SERVICE_WORKER_IMAGES_DIR',
  'SERVICE_WORKER_IMAGE_DAYS',
  'SERVICE_WORKER_IMAGE_GB',
  'SERVICE_WORKER_KUBERNETES_HELPER_IMAGE',
  'SERVICE_WORKER_KUBERNETES_MOUNT_IMAGES',
  'SERVICE_WORKER_KUBERNETES_NAMESPACE',
  'SERVICE_WORKER_KUBERNETES_POD_TEMPLATE',
  'SERVICE_WORKER_KUBERNETES_PRIORITY_CLASS',
  'SERVICE_WORKER_KUBERNETES_PULL_GRACE',
  'SERVICE_WORKER_KUBERNETES_PULL_POLICY',
  'SERVICE_WORKER_KUBERNETES_PULL_SECRETS',
  'SERVICE_WORKER_KUBERNETES_SERVICE_ACCOUNT',
  'SERVICE_WORKER_KUBERNETES_TAGS',
  'SERVICE_WORKER_KUBERNETES_TOLERATIONS',
  'SERVICE_WORKER_KUBERNETES_VRAM_LABEL',
  'SERVICE_WORKER_LOCAL_REGISTRIES',
  'SERVICE_WORKER_MAX_ANSWER_BYTES',
  'SERVICE_WORKER_MAX_EVENTS',
  'SERVICE_WORKER_MAX_EVENT_BYTES',
  'SERVICE_WORKER_MAX_GRACE_S',
  'SERVICE_WORKER_MAX_PENDING',
  'SERVICE_WORKER_MAX_RUNS',
  'SERVICE_WORKER_NETWORK',
  'SERVICE_WORKER_NETWORKS',
  'SERVICE_WORKER_OCI_RUNTIME',
  'SERVICE_WORKER_OLD_ENGINE',
  'SERVICE_WORKER_PIDS',
  'SERVICE_WORKER_POOL',
  'SERVICE_WORKER_PULL_COMMAND',
  'SERVICE_WORKER_PULL_SILENCE',
  'SERVICE_WORKER_RAM_MB',
  'SERVICE_WORKER_REGISTRY_LOGINS',
  'SERVICE_WORKER_REQUIRE_RAM_LIMIT',
  'SERVICE_WORKER_RUNTIME',
  'SERVICE_WORKER_SLURM_ACCOUNT',
  'SERVICE_WORKER_SLURM_ARGS',
  'SERVICE_WORKER_SLURM_CONTAINER',
  'SERVICE_WORKER_SLURM_DIR',
  'SERVICE_WORKER_SLURM_FEATURES',
  'SERVICE_WORKER_SLURM_GPUS',
  'SERVICE_WORKER_SLURM_IMAGES',
  'SERVICE_WORKER_SLURM_PARTITIONS',
  'SERVICE_WORKER_SLURM_POLL',
  'SERVICE_WORKER_SLURM_QOS',
  'SERVICE_WORKER_SLURM_SCRATCH',
  'SERVICE_WORKER_SLURM_TIME',
  'SERVICE_WORKER_STATE_DIR',
  'SERVICE_WORKER_TAGS',
  'SERVICE_WORKER_TICK',
  'SERVICE_WORKER_TIMEOUT',
  'SERVICE_WORKER_ULIMITS',
  'SERVICE_WORKER_USER',
  'SERVICE_WORKER_VOLUMES',
  'SERVICE_WRITE_TIMEOUT',
];

/** Edits by which a name may differ from the one that it is taken for. */
const MOST_EDITS = 4;

/** One line for each variable whose name begins with `SERVICE_` and is none of ours. The values are not shown. */
export function unknownVariables(env: Readonly<NodeJS.ProcessEnv>): string[] {
  return Object.keys(env)
    .filter((name) => name.startsWith('SERVICE_') && !KNOWN_VARIABLES.includes(name))
    .toSorted()
    .map((name) => {
      const nearest = nearestOf(name);
      const advice = nearest === undefined ? '' : `; did you mean ${nearest}?`;
      return `${name} is not a setting and has no effect${advice}`;
    });
}

function nearestOf(name: string): string | undefined {
  const similar = KNOWN_VARIABLES.filter(({ length }) => Math.abs(length - name.length) <= MOST_EDITS);
  const [nearest] = similar
    .map((known) => ({ known, edits: editsBetween(name, known) }))
    .filter(({ edits }) => edits <= MOST_EDITS)
    .toSorted((a, b) => a.edits - b.edits);
  return nearest?.known;
}

/** The least number of characters to insert, remove or replace (Levenshtein's distance). */
function editsBetween(from: string, to: string): number {
  let row = Array.from({ length: to.length + 1 }, (_, n) => n);
  for (const [i, letter] of [...from].entries()) {
    const next = [i + 1];
    for (const [j, other] of [...to].entries()) {
      const replaced = (row[j] ?? 0) + (letter === other ? 0 : 1);
      next.push(Math.min(replaced, (row[j + 1] ?? 0) + 1, (next[j] ?? 0) + 1));
    }
    row = next;
  }
  return row.at(-1) ?? 0;
}
