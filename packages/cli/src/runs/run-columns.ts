import type { Schemas } from '@longshore/client';
import { compareNumbers } from '@longshore/common/json/canonical-json';
import { composeJson, memberText, memberTexts } from '@longshore/common/json/json-text';
import { isJsonObject } from '@longshore/common/json/json-value';
import { usageError } from '../cli-error.js';

type Run = Schemas['OpRun'];

/** Shorter names of fields that runs have elsewhere. */
const SHORT: Readonly<Record<string, string>> = {
  attempt: 'current_attempt',
  created: 'createdAt',
  definition: 'op_definition',
  version: 'op_definition_version',
  started: 'execution_summary.started_at',
  finished: 'execution_summary.finished_at',
  worker: 'execution_summary.worker_id',
  error: 'execution_summary.error_message',
};

const NUMBER = /^-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?$/;
/** The place before what spreadsheets take for a formula: in a cell, or behind what separates cells where they use another separator. */
const FORMULA = /(?<=^|[;\t\r\n])(?=[=+\-@\t\r\n\uff1d\uff0b\uff0d\uff20])/g;

/**
 * The exact JSON text of a field of a run, by its path: `state`, `inputs.lr`, `labels.team`, `cause`. Undefined: the run has none.
 * @throws CliError for a field that no run has
 */
export function fieldText(run: Run, column: string): string | undefined {
  const path = (Object.hasOwn(SHORT, column) && SHORT[column]) || column;
  const [first = ''] = path.split('.', 1);
  if (Object.hasOwn(run, first)) return textAt(run, path);
  const summary = textAt(run.execution_summary, path);
  if (summary !== undefined || OPTIONAL_FIELDS.has(first)) return summary;
  throw usageError(
    `a run has no field ${JSON.stringify(column)}: it has ${[...new Set([...Object.keys(run), ...OPTIONAL_FIELDS])].join(', ')}, and what they hold, such as inputs.lr`,
  );
}

/** Fields that not every run has: `reason`, and those of `execution_summary`. */
const OPTIONAL_FIELDS: ReadonlySet<string> = new Set([
  'reason',
  'gpu_id',
  'gpu_ids',
  'assigned_at',
  'started_at',
  'finished_at',
  'queued_ms',
  'duration_ms',
  'asked_ram_mb',
  'cause',
  'exit_code',
  'reclaims',
  'worker_id',
  'error_message',
  'cancel_reason',
] satisfies ('reason' | keyof Run['execution_summary'])[]);

/** A key may have points itself. */
function textAt(value: object, path: string): string | undefined {
  const whole = memberText(value, path);
  if (whole !== undefined) return whole === 'null' ? undefined : whole;
  for (let at = path.indexOf('.'); at > 0; at = path.indexOf('.', at + 1)) {
    const inner: unknown = Reflect.get(value, path.slice(0, at));
    const text = typeof inner === 'object' && inner !== null ? textAt(inner, path.slice(at + 1)) : undefined;
    if (text !== undefined) return text;
  }
  return undefined;
}

/** A field as people read it: texts without quotes, nothing for none. */
export function plainField(run: Run, column: string): string {
  return withoutQuotes(fieldText(run, column) ?? '');
}

function withoutQuotes(text: string): string {
  return text.startsWith('"') ? String(JSON.parse(text)) : text;
}

/** The columns of a run as JSON, each under its name; null for none. */
export function pickFields(run: Run, columns: readonly string[]): object {
  return composeJson(columns.map((column) => [column, fieldText(run, column) ?? 'null']));
}

/** Runs in the order of a field, numbers by their values and before texts; `-` before the name: the largest first. Runs without it come last. */
export function sortRuns(runs: readonly Run[], by: string): readonly Run[] {
  const [column, sign] = by.startsWith('-') ? [by.slice(1), -1] : [by, 1];
  return runs
    .map((run) => ({ run, text: fieldText(run, column) }))
    .toSorted(({ text: a }, { text: b }) => {
      if (a === undefined || b === undefined) return Number(a === undefined) - Number(b === undefined);
      const [isA, isB] = [NUMBER.test(a), NUMBER.test(b)];
      if (isA && isB) return sign * compareNumbers(a, b);
      if (isA !== isB) return sign * (isA ? -1 : 1);
      return sign * (a < b ? -1 : a > b ? 1 : 0);
    })
    .map(({ run }) => run);
}

/**
 * A line of CSV (RFC 4180). What a spreadsheet would take for a formula gets a `'` before it; a number is none.
 * @param texts JSON texts; undefined: empty
 */
export function csvLine(texts: readonly (string | undefined)[]): string {
  const cells = texts.map((text = '') => {
    const plain = withoutQuotes(text);
    const safe = NUMBER.test(text) ? plain : plain.replaceAll(FORMULA, "'");
    return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
  });
  return `${cells.join(',')}\n`;
}

/** Fields that differ between any two runs. */
const OWN_FIELDS: ReadonlySet<string> = new Set([
  'id',
  'createdAt',
  'updatedAt',
  'events',
  'traceparent',
  'assigned_at',
  'started_at',
  'finished_at',
  'queued_ms',
]);

/** The fields of a run that can be compared with those of another, each with its exact JSON text. Empty ones are left out. */
export function comparableFields(run: Run): ReadonlyMap<string, string> {
  const { execution_summary: summary, ...others } = run;
  const fields = new Map<string, string>();
  addMembers(fields, '', others);
  addMembers(fields, '', summary);
  for (const name of OWN_FIELDS) fields.delete(name);
  return fields;
}

function addMembers(fields: Map<string, string>, prefix: string, value: object): void {
  for (const [key, text] of memberTexts(value)) {
    const inner: unknown = Reflect.get(value, key);
    if (isJsonObject(inner)) addMembers(fields, `${prefix}${key}.`, inner);
    else if (text !== 'null' && text !== '[]') fields.set(`${prefix}${key}`, text);
  }
}
