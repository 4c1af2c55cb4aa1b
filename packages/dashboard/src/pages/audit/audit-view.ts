import type { Schemas } from '../../api/use-api.js';
import { jsonChanges, type JsonChange } from '../../lib/json-changes.js';

/** A recorded change as the API has it. */
export type AuditEntry = Schemas['AuditEntry'];

/** What the change did to each field; nothing when it set what was there already. */
export function changesOf({ before, after }: AuditEntry): JsonChange[] {
  return jsonChanges(before, after);
}

const ACTIONS: Readonly<Record<Exclude<AuditEntry['action'], 'run.patch'>, string>> = {
  'run.labels': 'name and labels of a run changed',
  'bulk.start': 'bulk operation started',
  'bulk.stop': 'bulk operation stopped',
  'key.create': 'API key created',
  'key.revoke': 'API key revoked',
  'worker.drain': 'worker drained',
  'worker.resume': 'worker resumed',
  'definition.create': 'definition created',
  'definition.replace': 'definition replaced',
  'definition.delete': 'definition deleted',
  'secret.create': 'secret created',
  'secret.replace': 'secret replaced',
  'secret.delete': 'secret deleted',
  'secret.rotate': 'secrets encrypted with a new key',
  'secret.read': 'secrets of a run read by its worker',
};

/** The change in a line, such as `state FAILED → PENDING · 2 outputs` of a run, or `worker drained`. */
export function summaryOf(entry: AuditEntry): string {
  if (entry.action !== 'run.patch') return ACTIONS[entry.action];
  const changes = changesOf(entry);
  if (changes.length === 0) return 'nothing changed';
  const outputs = changes.filter(({ path }) => path.startsWith('outputs.')).length;
  const plain = changes
    .filter(({ path }) => !path.startsWith('outputs.'))
    .map(({ path, before, after }) => `${path} ${inWords(before)} → ${inWords(after)}`);
  return [...plain, ...(outputs === 0 ? [] : [outputs === 1 ? '1 output' : `${outputs} outputs`])].join(
    ' · ',
  );
}

function inWords(value: unknown): string {
  return typeof value === 'string' ? value : (JSON.stringify(value) ?? 'none');
}
