import type { Schemas } from '@longshore/client';
import { RETRY_ON_CAUSES, RUN_OPTIONS, type RunOption } from '@longshore/client/constants';
import { shortFile } from '@longshore/client/needs';
import type { FieldKind, FormField } from './form-values.js';

/** Rows of fields as a form shows them. */
export type FieldRows = readonly (readonly FormField[])[];

/** A field of a form. */
export const field = (kind: FieldKind, path: string, label: string, hint: string): FormField => ({
  kind,
  path,
  label,
  hint,
});

export const IMAGE = field('text', 'image', 'Image', 'The container image to run.');

export const INPUTS = field(
  'object',
  'inputs',
  'Inputs',
  'A JSON object; the container reads it from its input file.',
);

export const PRIORITY = field('integer', 'priority', 'Priority', 'Higher goes first; default 0');

export const RETRY_ROW: readonly FormField[] = [
  field('integer', 'retry_policy.max_attempts', 'Attempts', 'Attempts that may fail; default 1'),
  field('integer', 'retry_policy.backoff_s', 'Retry pause in s', 'Doubled each time; default 0'),
  field('integer', 'retry_policy.max_backoff_s', 'Longest pause in s', 'Default: a day'),
];

/** How the RAM grows from attempt to attempt. */
const GROWTH_ROW: readonly FormField[] = [
  field(
    'number',
    'retry_policy.grow.ram_mb.factor',
    'RAM grows by the factor',
    'After an attempt that exceeded it, such as 2; default: it stays',
  ),
  field('integer', 'retry_policy.grow.ram_mb.max', 'RAM at most, in MB', 'Required with a factor'),
  field(
    'list',
    'retry_policy.grow.ram_mb.on',
    'RAM grows after',
    'Failures as in "Retry only after"; default: oom',
  ),
];

export const RESOURCE_ROW: readonly FormField[] = [
  field('integer', 'constraints.cpu', 'CPUs', 'Any unless given'),
  field('integer', 'constraints.ram_mb', 'RAM in MB', 'Any unless given'),
  field('integer', 'constraints.vram_mb', 'GPU memory in MB', 'No GPU unless given'),
];

/** What few runs say of their resources. */
const MORE_RESOURCE_ROWS: FieldRows = [
  [
    field('integer', 'constraints.cpu_millis', 'CPU in thousandths', 'In place of CPUs: 500 is half a core'),
    field(
      'integer',
      'constraints.cpu_limit_millis',
      'CPU limit in thousandths',
      '0: no limit; default: what it needs',
    ),
    field('integer', 'constraints.shm_mb', '/dev/shm in MB', 'Default: as its RAM'),
  ],
  [
    field('integer', 'constraints.gpus', 'Whole GPUs', 'For this run alone; GPU memory is then that of each'),
    field(
      'list',
      'constraints.gpu_selector',
      'GPU tags',
      'Tags that each of its GPUs has, separated by commas',
    ),
  ],
];

export const TIMEOUT_ROW: readonly FormField[] = [
  field('integer', 'timeouts.start_within_s', 'Start within, in s', 'Else the run fails; default: no limit'),
  field('integer', 'timeouts.attempt_s', 'Attempt timeout in s', 'Longest attempt; default: no limit'),
];

export const TOPIC = field(
  'text',
  'event_delivery.topic',
  'Topic',
  "The feed of the run's events; optional.",
);

export const ATTRIBUTES = field(
  'pairs',
  'event_delivery.attributes',
  'Attributes of events',
  'Labels of the events in the feed.',
);

/** Labels and hints of options that say more than their names and descriptions in the API. */
const LABELS: { readonly [N in RunOption['name']]?: Pick<FormField, 'label' | 'hint'> } = {
  env: {
    label: 'Environment variables',
    hint: 'Visible to everybody who sees the run: put secrets below.',
  },
  secrets: {
    label: 'Secrets',
    hint: 'Environment variables, each with the name of the secret that has its value.',
  },
  secrets_from: {
    label: 'Secrets with all their variables',
    hint: 'Secrets of kind map as a JSON list: [{"secret": "name", "prefix": ""}]',
  },
  files: {
    label: 'Files',
    hint: 'A JSON object by path: {"/etc/run.sh": {"content": "…", "mode": "0555"}, "/etc/key": {"secret": "name"}}',
  },
  mounts: {
    label: 'Mounts',
    hint: 'Folders as a JSON list: [{"volume": "results", "path": "/out", "sub_path": "${run.id}"}, {"scratch_mb": 1000, "path": "/scratch"}]',
  },
  ulimits: {
    label: 'Limits of the program',
    hint: 'A JSON object: {"nofile": 65536, "memlock": -1}; also "stack" and "core" in bytes',
  },
  command: { label: 'Command', hint: "One word per line, in place of the image's entrypoint" },
  args: { label: 'Arguments', hint: "One per line, in place of the image's own" },
};

const FIELD_KINDS = {
  map: 'pairs',
  list: 'words',
  'object-list': 'objects',
  'object-map': 'object',
  'record-list': 'objects',
  text: 'text',
  integer: 'integer',
  integers: 'object',
} as const;

/** The fields of the options that only the worker reads. */
const OPTION_FIELDS = RUN_OPTIONS.map(({ name, kind, about: hint }): FormField => {
  const label = (name.charAt(0).toUpperCase() + name.slice(1)).replaceAll('_', ' ');
  return { ...field(FIELD_KINDS[kind], name, label, hint), ...LABELS[name] };
});

export const LABELS_FIELD = field(
  'pairs',
  'labels',
  'Labels',
  'Texts by which runs are found, such as team = vision.',
);

const DESCRIPTION = field('text', 'description', 'Description', 'What the definition is for');

const NAME = field('text', 'name', 'Name', 'For people; need not be unique');

/** What a run, and what a definition, is for. */
export const RUN_NAME_ROWS: FieldRows = [[NAME], [LABELS_FIELD]];
export const DESCRIPTION_ROWS: FieldRows = [[DESCRIPTION], [LABELS_FIELD]];

const SELECTOR = field('list', 'selector', 'Selector', 'Tags that the worker must have, separated by commas');

const CONCURRENCY_ROW: readonly FormField[] = [
  field('text', 'concurrency.key', 'Concurrency key', 'Runs with this key are limited'),
  field('integer', 'concurrency.limit', 'Concurrency limit', 'So many may execute; default 1'),
  {
    ...field(
      'text',
      'concurrency.on_limit',
      'At the limit',
      'If so many have not ended when the run is created',
    ),
    choices: [
      ['', 'The run waits (default)'],
      ['queue', 'The run waits'],
      ['skip', 'The new run is cancelled'],
      ['cancel_oldest', 'The oldest runs are cancelled'],
    ],
  },
];

/** Rows that runs and definitions have: pairs alone, other fields two by two. */
const CONTAINER_ROWS: FieldRows = [
  ...OPTION_FIELDS.filter(({ kind }) => kind === 'pairs').map((one) => [one]),
  ...inPairs([...OPTION_FIELDS.filter(({ kind }) => kind !== 'pairs'), SELECTOR]),
  ...MORE_RESOURCE_ROWS,
  CONCURRENCY_ROW,
];

const RETRY_ON = field(
  'list',
  'retry_policy.retry_on',
  'Retry only after',
  `${RETRY_ON_CAUSES.join(', ')}, exit:75, exit:100-110; default: all failures`,
);

const START_AT = field('time', 'start_at', 'Start at', 'Not before this time, here; default: now');

/** The part "Advanced" of a run; a definition has no time of a start. */
export const ADVANCED_RUN_ROWS: FieldRows = [...CONTAINER_ROWS, [START_AT, RETRY_ON], GROWTH_ROW];
export const ADVANCED_DEFINITION_ROWS: FieldRows = [...CONTAINER_ROWS, [RETRY_ON], GROWTH_ROW];

/** What a run may say beside its inputs in place of its definition. */
export const DEFINITION_RUN_ROWS: FieldRows = [...ADVANCED_RUN_ROWS, RESOURCE_ROW, TIMEOUT_ROW, [ATTRIBUTES]];

function inPairs(fields: readonly FormField[]): FieldRows {
  return fields.flatMap((_, at) => (at % 2 === 0 ? [fields.slice(at, at + 2)] : []));
}

/** The options of a run or a definition that only the worker reads and that are set, as people read them; undefined when none is. */
export function containerOf(given: Readonly<Record<RunOption['name'], unknown>>): object | undefined {
  const files = Object.entries<object>(Object(given.files)).map(([path, file]) => [path, shortFile(file)]);
  const shown = { ...given, files: Object.fromEntries(files) };
  const set = RUN_OPTIONS.flatMap(({ name, default: unset }) => {
    const value = shown[name];
    const isEmpty = value === null || (typeof value === 'object' && Object.keys(Object(value)).length === 0);
    return isEmpty || value === unset ? [] : [[name, value] as const];
  });
  return set.length === 0 ? undefined : Object.fromEntries(set);
}

/** Constraints as a request has them: without the GPUs that the scheduler chose, and CPU once, in the exact form if there is one. */
export function requestedOf({ gpu_id: _gpu, gpu_ids: _gpus, cpu, ...constraints }: Schemas['Constraints']) {
  return constraints.cpu_millis === undefined ? { ...constraints, cpu } : constraints;
}
