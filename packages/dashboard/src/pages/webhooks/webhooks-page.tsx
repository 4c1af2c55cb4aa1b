import { useState } from 'react';
import { unwrap } from '../../api/answers.js';
import { useApi, useLive } from '../../api/use-api.js';
import { Button } from '../../components/controls/button.js';
import { EmptyState } from '../../components/feedback/empty-state.js';
import { DataTable, type Column } from '../../components/table/data-table.js';
import { Line } from '../../components/values/facts.js';
import { Time } from '../../components/values/time.js';
import { formatCount } from '../../lib/format.js';
import { PageHeader } from '../../shell/page-header.js';
import { useShortcut } from '../../shell/shortcuts.js';
import { WebhookDialog } from './webhook-dialog.js';
import { WebhookBadge, type Webhook } from './webhook-badge.js';

const ROW_HEIGHT = { line: 40, card: 190 };
const EVERY_MS = 5000;

/** Every webhook: whom it tells of what, and whether that works. */
export default function WebhooksPage() {
  const api = useApi();
  const [isCreating, setCreating] = useState(false);
  const create = (): void => setCreating(true);
  const { data, error, refetch } = useLive({
    queryKey: ['webhooks'],
    queryFn: ({ signal }) => unwrap(api.GET('/webhooks', { signal })),
    everyMs: EVERY_MS,
  });
  useShortcut('n', 'New webhook', create);
  return (
    <>
      <PageHeader title="Webhooks" actions={<Button onClick={create}>New webhook</Button>} />
      <DataTable
        label="Webhooks"
        columns={COLUMNS}
        rows={data}
        rowKey={keyOf}
        rowHref={hrefOf}
        rowHeight={ROW_HEIGHT}
        error={error}
        onRetry={() => void refetch()}
        empty={
          <EmptyState
            icon="webhooks"
            title="There is no webhook yet"
            action={<Button onClick={create}>New webhook</Button>}
          >
            A webhook sends signed messages about runs to an https address: their ends, unless others are
            asked for.
          </EmptyState>
        }
      />
      {isCreating && <WebhookDialog onClose={() => setCreating(false)} />}
    </>
  );
}

function keyOf({ id }: Webhook): string {
  return id;
}

function hrefOf({ id }: Webhook): string {
  return `/webhooks/${id}`;
}

const COLUMNS: readonly Column<Webhook>[] = [
  {
    header: 'URL',
    width: 'minmax(10rem, 2fr)',
    card: 'title',
    cell: ({ url }) => <Line text={url} isCode />,
  },
  {
    header: 'Events',
    width: 'minmax(8rem, 1.4fr)',
    card: 'full',
    cell: ({ events }) => <Line text={events.join(', ')} />,
  },
  { header: 'State', width: '7rem', cell: (webhook) => <WebhookBadge webhook={webhook} /> },
  { header: 'Read until', width: '6rem', cell: (webhook) => <Time at={webhook.read_until} /> },
  { header: 'Failures', width: '5rem', align: 'end', cell: ({ failures }) => formatCount(failures) },
  { header: 'Parked', width: '5rem', align: 'end', cell: ({ parked }) => formatCount(parked) },
];
