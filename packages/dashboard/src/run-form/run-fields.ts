import type { FormField } from './form-values.js';

/** Rows of fields as a form shows them. */
export type FieldRows = readonly (readonly FormField[])[];

export const IMAGE: FormField = {
  path: 'image',
  kind: 'text',
  label: 'Image',
  hint: 'The container image to run.',
};

export const INPUTS: FormField = {
  path: 'inputs',
  kind: 'object',
  label: 'Inputs',
  hint: 'A JSON object; the container reads it from its input file.',
};

export const PRIORITY: FormField = {
  path: 'priority',
  kind: 'integer',
  label: 'Priority',
  hint: 'Higher goes first; default 0',
};

const number = (path: string, label: string, hint: string): FormField => ({
  path,
  kind: 'integer',
  label,
  hint,
});

export const RETRY_ROW: readonly FormField[] = [
  number('retry_policy.max_attempts', 'Attempts', 'Attempts that may fail; default 1'),
  number('retry_policy.backoff_s', 'Retry pause in s', 'Doubled each time; default 0'),
  number('retry_policy.max_backoff_s', 'Longest pause in s', 'Default: a day'),
];

export const RESOURCE_ROW: readonly FormField[] = [
  number('constraints.cpu', 'CPUs', 'Any unless given'),
  number('constraints.ram_mb', 'RAM in MB', 'Any unless given'),
  number('constraints.vram_mb', 'GPU memory in MB', 'No GPU unless given'),
];

export const TIMEOUT_ROW: readonly FormField[] = [
  number('timeouts.start_within_s', 'Start within, in s', 'Else the run fails; default: no limit'),
  number('timeouts.attempt_s', 'Attempt timeout in s', 'Longest attempt; default: no limit'),
];

export const TOPIC: FormField = {
  path: 'event_delivery.topic',
  kind: 'text',
  label: 'Topic',
  hint: "The feed of the run's events; optional.",
};

export const ATTRIBUTES: FormField = {
  path: 'event_delivery.attributes',
  kind: 'pairs',
  label: 'Attributes of events',
  hint: 'Labels of the events in the feed.',
};

/** What a run or a definition says of its container. */
const CONTAINER_ROWS: FieldRows = [
  [
    {
      path: 'env',
      kind: 'pairs',
      label: 'Environment variables',
      hint: 'Visible to everybody who sees the run: put secrets below.',
    },
  ],
  [
    {
      path: 'secrets',
      kind: 'pairs',
      label: 'Secrets',
      hint: 'Environment variables, each with the name of the secret that has its value.',
    },
  ],
  [
    {
      path: 'command',
      kind: 'words',
      label: 'Command',
      hint: "One word per line, in place of the image's entrypoint",
    },
    { path: 'args', kind: 'words', label: 'Arguments', hint: "One per line, in place of the image's own" },
  ],
  [
    {
      path: 'image_pull_secret',
      kind: 'text',
      label: 'Image pull secret',
      hint: 'Name of the secret with the login for the registry',
    },
    {
      path: 'selector',
      kind: 'list',
      label: 'Selector',
      hint: 'Tags that the worker must have, separated by commas',
    },
  ],
  [
    {
      path: 'concurrency.key',
      kind: 'text',
      label: 'Concurrency key',
      hint: 'Runs with this key are limited',
    },
    number('concurrency.limit', 'Concurrency limit', 'So many may execute; default 1'),
  ],
];

const RETRY_ON: FormField = {
  path: 'retry_policy.retry_on',
  kind: 'list',
  label: 'Retry only after',
  hint: 'error, exit, oom, timeout, image, exit:75, exit:100-110; default: all failures',
};

const START_AT: FormField = {
  path: 'start_at',
  kind: 'time',
  label: 'Start at',
  hint: 'Not before this time, here; default: now',
};

/** The part "Advanced" of a run; a definition has no time of a start. */
export const RUN_OPTIONS: FieldRows = [...CONTAINER_ROWS, [START_AT, RETRY_ON]];
export const DEFINITION_OPTIONS: FieldRows = [...CONTAINER_ROWS, [RETRY_ON]];
