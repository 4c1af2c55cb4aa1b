import type { Setting } from '@longshore/common/settings/setting';
import { KUBERNETES_SETTINGS } from './kubernetes-settings.js';
import { SLURM_SETTINGS } from './slurm-settings.js';

/** Settings of all runtimes. */
const COMMON_SETTINGS = [
  {
    field: 'serviceUrl',
    env: 'SERVICE_URL',
    flag: 'url',
    kind: 'text',
    default: 'http://127.0.0.1:5555',
    allowed: 'an http:// or https:// URL without user name, query and fragment',
    description: 'Address of the service.',
  },
  {
    field: 'apiKey',
    env: 'SERVICE_API_KEY',
    kind: 'text',
    required: true,
    allowed: 'an API key with the scope worker, in visible ASCII characters',
    description: 'API key that the worker sends.',
  },
  {
    field: 'workerId',
    env: 'SERVICE_WORKER_ID',
    flag: 'id',
    kind: 'text',
    allowed: '1 to 128 characters of A-Z a-z 0-9 . _ - :, the first one a letter or digit',
    description:
      'Id of the worker; when unset, the name of the machine and a suffix that is kept in SERVICE_WORKER_STATE_DIR.',
  },
  {
    field: 'stateDir',
    env: 'SERVICE_WORKER_STATE_DIR',
    flag: 'state-dir',
    kind: 'text',
    allowed: 'a path',
    description:
      'Folder with the suffix of the id and the locks of ids in use; when unset, longshore-worker in $XDG_STATE_HOME or ~/.local/state.',
  },
  {
    field: 'cpuCores',
    env: 'SERVICE_WORKER_CPU',
    flag: 'cpu',
    kind: 'integer',
    allowed: 'an integer from 1 to 65536',
    description:
      'CPU cores that this worker offers to runs; when unset, those of the machine, or what the cluster could give now.',
  },
  {
    field: 'ramMb',
    env: 'SERVICE_WORKER_RAM_MB',
    flag: 'ram-mb',
    kind: 'integer',
    allowed: 'an integer from 1 to 2147483647',
    description:
      'Memory in MB that this worker offers to runs; when unset, that of the machine, or what the cluster could give now.',
  },
  {
    field: 'gpuIds',
    env: 'SERVICE_WORKER_GPUS',
    flag: 'gpus',
    kind: 'text',
    allowed: 'none, or a comma-separated list of indices of GPUs, as nvidia-smi shows them',
    description: 'GPUs that this worker offers to runs; when unset, all of the machine.',
  },
  {
    field: 'tags',
    env: 'SERVICE_WORKER_TAGS',
    flag: 'tags',
    kind: 'text',
    allowed: 'a comma-separated list of up to 100 tags of up to 128 characters',
    description: 'Tags of the worker, separated by commas.',
  },
  {
    field: 'tickSeconds',
    env: 'SERVICE_WORKER_TICK',
    flag: 'tick',
    kind: 'number',
    default: '2',
    allowed: 'a number of seconds from 0.05 to 3600',
    description:
      'Seconds between two claims, and between two heartbeats or polls of a run where the service cannot hold them.',
  },
  {
    field: 'runtime',
    env: 'SERVICE_WORKER_RUNTIME',
    flag: 'runtime',
    kind: 'text',
    default: 'docker',
    allowed: 'docker, process, kubernetes or slurm',
    description:
      'How images are executed: on this machine in containers (docker) or as plain processes without isolation (process), or as jobs of a cluster (kubernetes, slurm).',
  },
  {
    field: 'imagesDir',
    env: 'SERVICE_WORKER_IMAGES_DIR',
    flag: 'images-dir',
    kind: 'text',
    allowed: 'a path',
    description: 'Folder of the images of the runtime process.',
  },
  {
    field: 'allowedImages',
    env: 'SERVICE_WORKER_IMAGES',
    flag: 'images',
    kind: 'text',
    allowed: 'a comma-separated list of up to 100 patterns such as ghcr.io/acme/*',
    description:
      'Images that the worker runs, except by the runtime process: REGISTRY/PATH without tag, with * for any text, such as docker.io/library/*; when unset, all.',
  },
  {
    field: 'localRegistries',
    env: 'SERVICE_WORKER_LOCAL_REGISTRIES',
    flag: 'local-registries',
    kind: 'boolean',
    default: 'false',
    allowed: 'true or false',
    description: 'Whether images may come from registries at loopback and link-local addresses.',
  },
  {
    field: 'registryLogins',
    env: 'SERVICE_WORKER_REGISTRY_LOGINS',
    flag: 'registry-logins',
    kind: 'text',
    allowed: 'a path',
    description:
      'File with logins at registries, as docker login writes it (~/.docker/config.json), for images of runs without image_pull_secret; used by the runtime docker. All runs may then use these images. When unset, no logins.',
  },
  {
    field: 'pullSilenceSeconds',
    env: 'SERVICE_WORKER_PULL_SILENCE',
    flag: 'pull-silence',
    kind: 'number',
    default: '0',
    allowed: 'a number of seconds from 0 to 86400',
    description:
      'Seconds after which a pull is given up that reports nothing, although the container engine answers. 0: never.',
  },
  {
    field: 'imageDays',
    env: 'SERVICE_WORKER_IMAGE_DAYS',
    flag: 'image-days',
    kind: 'number',
    default: '7',
    allowed: 'a number of days from 0 to 36500',
    description:
      'Days without use after which the runtime docker removes an image that it has pulled. With 0, age removes none.',
  },
  {
    field: 'imageGb',
    env: 'SERVICE_WORKER_IMAGE_GB',
    flag: 'image-gb',
    kind: 'number',
    default: '50',
    allowed: 'a number of GB (10^9 bytes) from 0 to 1000000',
    description:
      'Size of all images that the runtime docker has pulled; beyond it, those used least recently are removed. With 0, size removes none.',
  },
  {
    field: 'network',
    env: 'SERVICE_WORKER_NETWORK',
    flag: 'network',
    kind: 'text',
    default: 'longshore',
    allowed: 'a name of a network of 1 to 128 characters of A-Z a-z 0-9 . _ -, not host',
    description:
      "Network of the runtime docker's containers: longshore, which it creates, without traffic between containers; bridge, the default one of the engine; none; or any other that exists.",
  },
  {
    field: 'networks',
    env: 'SERVICE_WORKER_NETWORKS',
    flag: 'networks',
    kind: 'text',
    allowed:
      'a comma-separated list of up to 100 entries NAME=NETWORK, without the names none and host and the network host',
    description:
      "Networks that runs may choose by name (their option `network`), each with the engine's network of the runtime docker.",
  },
  {
    field: 'volumes',
    env: 'SERVICE_WORKER_VOLUMES',
    flag: 'volumes',
    kind: 'text',
    allowed:
      'a comma-separated list of up to 100 entries NAME=FOLDER or NAME=docker-volume:VOLUME (docker), NAME=pvc:CLAIM (kubernetes), NAME=FOLDER (slurm), each with :ro at the end if wanted',
    description:
      'Volumes that runs may mount by name (their option `mounts`): absolute paths of folders of the host or volumes of Docker, claims of Kubernetes, or folders of the nodes of Slurm; with :ro, runs only read.',
  },
  {
    field: 'containerUser',
    env: 'SERVICE_WORKER_USER',
    flag: 'user',
    kind: 'text',
    allowed: 'a number of a user, numbers of user and group such as 1000:1000, or nonroot',
    description:
      'User of every container of the runtime docker, in place of that of the run or the image; nonroot: a run whose user is 0, or no number, fails.',
  },
  {
    field: 'pids',
    env: 'SERVICE_WORKER_PIDS',
    flag: 'pids',
    kind: 'integer',
    allowed: 'an integer from 64 to 4194304',
    description:
      'Processes and threads that one container of the runtime docker may have; when unset, 1024 and 256 for each CPU of the run, or of the machine if the run has no limit.',
  },
  {
    field: 'maxEvents',
    env: 'SERVICE_WORKER_MAX_EVENTS',
    flag: 'max-events',
    kind: 'integer',
    default: '10000',
    allowed: 'an integer from 0 to 1000000',
    description: 'Events of one attempt that are forwarded from its log; further ones are dropped.',
  },
  {
    field: 'maxEventBytes',
    env: 'SERVICE_WORKER_MAX_EVENT_BYTES',
    flag: 'max-event-bytes',
    kind: 'integer',
    default: '8388608',
    allowed: 'an integer from 0 to 1073741824',
    description: 'Bytes of the lines of these events; further events are dropped.',
  },
  {
    field: 'eventRate',
    env: 'SERVICE_WORKER_EVENT_RATE',
    flag: 'event-rate',
    kind: 'number',
    default: '100',
    allowed: 'a number from 0.1 to 100000',
    description: 'Events per second that are forwarded for one run; a container that prints more waits.',
  },
  {
    field: 'maxAnswerBytes',
    env: 'SERVICE_WORKER_MAX_ANSWER_BYTES',
    flag: 'max-answer-bytes',
    kind: 'integer',
    default: '67108864',
    allowed: 'an integer from 65536 to 1073741824',
    description: 'Bytes of one answer of the service that are read.',
  },
  {
    field: 'drainSeconds',
    env: 'SERVICE_WORKER_DRAIN',
    flag: 'drain',
    kind: 'number',
    default: '30',
    allowed: 'a number of seconds from 0 to 86400',
    description: 'Seconds that runs may continue when the worker shuts down.',
  },
  {
    field: 'workerTimeoutSeconds',
    env: 'SERVICE_WORKER_TIMEOUT',
    flag: 'worker-timeout',
    kind: 'number',
    default: '60',
    allowed: 'a number of seconds from 0.1 to 86400',
    description:
      'Seconds without a heartbeat after which a worker is stale, until the service sends its own value.',
  },
  {
    field: 'maxRuns',
    env: 'SERVICE_WORKER_MAX_RUNS',
    flag: 'max-runs',
    kind: 'integer',
    allowed: 'an integer from 1 to 1024',
    description:
      'Runs at the same time; when unset, as many as the resources allow, and at most 1000 (also the limit in a cluster).',
  },
  {
    field: 'deployment',
    env: 'SERVICE_WORKER_DEPLOYMENT',
    flag: 'deployment',
    kind: 'text',
    default: 'longshore',
    allowed: '1 to 40 characters of a-z 0-9 -, the first and the last one a letter or digit',
    description:
      'Name on all jobs in a cluster: launchers with the same one see, and end, the jobs of each other.',
  },
  {
    field: 'maxPending',
    env: 'SERVICE_WORKER_MAX_PENDING',
    flag: 'max-pending',
    kind: 'integer',
    default: '10',
    allowed: 'an integer from 1 to 1000',
    description:
      'Jobs of this launcher that may wait in the cluster; it claims no more runs until one has started.',
  },
  {
    field: 'healthFile',
    env: 'SERVICE_WORKER_HEALTH_FILE',
    flag: 'health-file',
    kind: 'text',
    allowed: 'a path',
    description: 'File that holds the time until which the worker counts as active.',
  },
  {
    field: 'logLevel',
    env: 'SERVICE_LOG_LEVEL',
    flag: 'log-level',
    kind: 'text',
    default: 'info',
    allowed: 'debug, info, warning or error',
    description: 'Lowest level that is logged.',
  },
] as const satisfies readonly Setting[];

/** Every setting of the worker program, in the order in which help shows them. */
export const WORKER_SETTINGS = [
  ...COMMON_SETTINGS,
  ...KUBERNETES_SETTINGS,
  ...SLURM_SETTINGS,
] as const satisfies readonly Setting[];

/** Field of a setting of the worker program. */
export type WorkerSettingField = (typeof WORKER_SETTINGS)[number]['field'];
