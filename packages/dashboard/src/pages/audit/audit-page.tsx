import { useState } from 'react';
import { useApi, type Schemas } from '../../api/use-api.js';
import { CopyButton } from '../../components/controls/copy-button.js';
import { Dialog } from '../../components/feedback/dialog.js';
import { EmptyState } from '../../components/feedback/empty-state.js';
import type { Column } from '../../components/table/data-table.js';
import { ChangeList } from '../../components/values/change-list.js';
import { Fact, Line } from '../../components/values/facts.js';
import { RunLink } from '../../components/values/named-links.js';
import { Time } from '../../components/values/time.js';
import { jsonChanges, type JsonChange } from '../../lib/json-changes.js';
import { ListPage } from '../../shell/list-page.js';
import styles from './audit-page.module.css';

const ROW_HEIGHT = { line: 44, card: 150 };

/** Who changed what, and how. */
export default function AuditPage() {
  const api = useApi();
  const [opened, setOpened] = useState<AuditEntry>();
  return (
    <>
      <ListPage
        title="Audit"
        note="Direct changes of runs; API keys, drains and definitions; newest first"
        queryKey={['audit']}
        read={({ limit, after: behind = '' }, signal) => {
          const place = /^\d{1,15}$/.test(behind) ? { after: Number(behind) } : {};
          return api.GET('/audit', { params: { query: { limit, ...place } }, signal });
        }}
        cursorOf={({ id }) => String(id)}
        label="Audit"
        columns={AUDIT_COLUMNS}
        onOpen={setOpened}
        rowHeight={ROW_HEIGHT}
        renderEmpty={(isFirst) =>
          isFirst ? (
            <EmptyState icon="audit" title="No recorded changes">
              Kept here are changes of state, priority or outputs past the rules of a run (PATCH), and changes
              of API keys, drains and definitions: who did it, what it was and what it became.
            </EmptyState>
          ) : (
            <EmptyState icon="audit" title="There is nothing older" />
          )
        }
        paged="the audit log"
        counted="changes"
      />
      {opened !== undefined && <AuditDialog entry={opened} onClose={() => setOpened(undefined)} />}
    </>
  );
}

const AUDIT_COLUMNS: readonly Column<AuditEntry>[] = [
  {
    header: 'Change',
    width: 'minmax(14rem, 3fr)',
    card: 'title',
    cell: (entry) => (
      <span className={styles.summary} title={summaryOf(entry)}>
        {summaryOf(entry)}
      </span>
    ),
  },
  { header: 'Time', width: '7rem', cell: ({ t }) => <Time at={t} /> },
  {
    header: 'Key',
    width: 'minmax(7rem, 1fr)',
    cell: ({ key_name: name }) => <Line text={name} />,
  },
  {
    header: 'What',
    width: 'minmax(10rem, 1fr)',
    card: 'full',
    cell: (entry) => <Subject entry={entry} />,
  },
];

interface Props {
  readonly entry: AuditEntry;
  readonly onClose: () => void;
}

/** One change, field by field. */
function AuditDialog({ entry, onClose }: Props) {
  const changes = changesOf(entry);
  return (
    <Dialog onClose={onClose} title={`Change ${entry.id}`} width="wide">
      <dl className={styles.facts}>
        <Fact name="Time">
          <Time at={entry.t} />
        </Fact>
        <Fact name="Key">{entry.key_name}</Fact>
        <Fact name={entry.run_id === null ? summaryOf(entry) : 'Run'}>
          <Subject entry={entry} />
          <CopyButton what={entry.run_id === null ? 'id' : 'run id'} text={entry.subject} />
        </Fact>
      </dl>
      {changes.length === 0 ? (
        <p className="muted">The change had no effect.</p>
      ) : (
        <ChangeList label="What changed" changes={changes} />
      )}
    </Dialog>
  );
}

/** What was changed: a run with a link, or the id of something else. */
function Subject({ entry: { run_id: runId, subject } }: { readonly entry: AuditEntry }) {
  if (runId !== null) return <RunLink id={runId} />;
  return <Line text={subject} />;
}

/** A recorded change as the API has it. */
type AuditEntry = Schemas['AuditEntry'];

/** What the change did to each field; nothing when it set what was there already. */
function changesOf({ before, after }: AuditEntry): JsonChange[] {
  return jsonChanges(before, after);
}

const ACTIONS: Readonly<Record<Exclude<AuditEntry['action'], 'run.patch'>, string>> = {
  'run.labels': 'name and labels of a run changed',
  'run.kill': 'program of a cancelled run ended at once',
  'bulk.start': 'bulk operation started',
  'bulk.stop': 'bulk operation stopped',
  'key.create': 'API key created',
  'key.update': 'limits of an API key changed',
  'key.revoke': 'API key revoked',
  'worker.drain': 'worker drained',
  'worker.resume': 'worker resumed',
  'definition.create': 'definition created',
  'definition.replace': 'definition replaced',
  'definition.delete': 'definition deleted',
  'group.cancel': 'group cancelled',
  'group.retry': 'group tried again',
  'schedule.create': 'schedule created',
  'schedule.replace': 'schedule replaced',
  'schedule.delete': 'schedule deleted',
  'schedule.pause': 'schedule paused',
  'schedule.resume': 'schedule resumed',
  'schedule.trigger': 'schedule triggered',
  'schedule.backfill': 'schedule backfilled',
  'webhook.create': 'webhook created',
  'webhook.update': 'webhook changed',
  'webhook.delete': 'webhook deleted',
  'webhook.rotate': 'webhook got a new secret',
  'webhook.replay': 'webhook replayed',
  'webhook.redeliver': 'delivery of a webhook sent again',
  'webhook.disable': 'webhook disabled by the service',
  'pause.create': 'pause set',
  'pause.replace': 'pause replaced',
  'pause.delete': 'pause ended',
  'secret.create': 'secret created',
  'secret.replace': 'secret replaced',
  'secret.delete': 'secret deleted',
  'secret.rotate': 'secrets encrypted with a new key',
  'secret.read': 'secrets of a run read by its worker',
  'file.delete': 'file deleted',
};

/** The change in a line, such as `state FAILED → PENDING · 2 outputs` of a run, or `worker drained`. */
function summaryOf(entry: AuditEntry): string {
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
