import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useParams } from 'wouter';
import { describeError, unwrap } from '../../api/answers.js';
import { useApi, useLive, type Schemas } from '../../api/use-api.js';
import { Button } from '../../components/controls/button.js';
import { EmptyState } from '../../components/feedback/empty-state.js';
import { showToast } from '../../components/feedback/toasts.js';
import type { Column } from '../../components/table/data-table.js';
import { Badge, type Tone } from '../../components/values/badge.js';
import { Fact, FactBox, Line } from '../../components/values/facts.js';
import { RunLink } from '../../components/values/named-links.js';
import { Time } from '../../components/values/time.js';
import { formatCount } from '../../lib/format.js';
import { ItemDescription, ItemPage, ItemTitle } from '../../shell/item-page.js';
import { ListPage } from '../../shell/list-page.js';
import { PageHeader } from '../../shell/page-header.js';
import { answerOf, tellOutcome, WebhookActions } from './webhook-actions.js';
import { WebhookBadge, type Webhook } from './webhook-badge.js';
import styles from './webhook-page.module.css';

type Delivery = Schemas['WebhookDelivery'];

const LIST = ['/webhooks', 'Webhooks'] as const;
const EVERY_MS = 5000;

/** One webhook: what it is told, whether that works, and each message. */
export default function WebhookPage() {
  const { id = '' } = useParams();
  const api = useApi();
  const result = useLive({
    queryKey: ['webhooks', 'one', id],
    queryFn: ({ signal }) => unwrap(api.GET('/webhooks/{id}', { params: { path: { id } }, signal })),
    everyMs: EVERY_MS,
  });
  return (
    <ItemPage list={LIST} name={id} kind="webhook" icon="webhooks" result={result}>
      {(webhook) => (
        <>
          <PageHeader
            title={<ItemTitle list={LIST} name={webhook.url} what="URL" />}
            note={<WebhookBadge webhook={webhook} />}
            actions={<WebhookActions webhook={webhook} />}
          />
          <ItemDescription text={webhook.description} />
          <Facts webhook={webhook} />
          <h2 className={styles.heading}>Deliveries</h2>
          <ListPage
            queryKey={['webhooks', 'deliveries', id]}
            read={(query, signal) =>
              api.GET('/webhooks/{id}/deliveries', { params: { path: { id }, query }, signal })
            }
            cursorOf={(delivery) => delivery.id}
            everyMs={EVERY_MS}
            label="Deliveries"
            columns={COLUMNS}
            rowHeight={ROW_HEIGHT}
            renderEmpty={(isFirst) => (
              <EmptyState
                icon="webhooks"
                title={isFirst ? 'Nothing has been sent yet' : 'There are no older deliveries'}
              />
            )}
            paged="deliveries"
            counted="deliveries, the newest first"
          />
        </>
      )}
    </ItemPage>
  );
}

function Facts({ webhook }: { readonly webhook: Webhook }) {
  const { events, where, include, gap, replay, failures } = webhook;
  return (
    <FactBox>
      <Fact name="Events">{[...events, ...include.map((part) => `with ${part}`)].join(', ')}</Fact>
      {Object.entries(where).map(([name, values]) => (
        <Fact key={name} name={`Only ${name}`}>
          {(values ?? []).join(', ')}
        </Fact>
      ))}
      {webhook.disabled_reason !== null && <Fact name="Disabled because">{webhook.disabled_reason}</Fact>}
      <Fact name="Events are read at least until">
        <Time at={webhook.read_until} />
      </Fact>
      <Fact name="Last success">
        <Time at={webhook.last_success_at} absent="never" />
      </Fact>
      <Fact name="Failed tries in a row">
        {formatCount(failures)}
        {failures > 0 && (
          <>
            , the first <Time at={webhook.failing_since} />
          </>
        )}
      </Fact>
      <Fact name="Parked messages">{formatCount(webhook.parked)}</Fact>
      {gap !== null && <Fact name="Events may be lost">{`${gap.from} – ${gap.until}`}</Fact>}
      {replay !== null && <Fact name="Is sent again">{`${replay.from} – ${replay.until}`}</Fact>}
      {webhook.old_secret_until !== null && (
        <Fact name="The old secret signs, too, until">
          <Time at={webhook.old_secret_until} />
        </Fact>
      )}
    </FactBox>
  );
}

const ROW_HEIGHT = { line: 48, card: 220 };
const TONES: Readonly<Record<Delivery['state'], Tone>> = { delivered: 'good', parked: 'warn', failed: 'bad' };

const COLUMNS: readonly Column<Delivery>[] = [
  { header: 'Event', width: 'minmax(7.5rem, 1fr)', card: 'title', cell: ({ type }) => <Line text={type} /> },
  {
    header: 'About',
    width: '7.5rem',
    cell: ({ type, subject }) =>
      type.startsWith('run.') ? <RunLink id={subject} /> : <Line text={subject} />,
  },
  { header: 'State', width: '6.5rem', cell: ({ state }) => <Badge tone={TONES[state]}>{state}</Badge> },
  { header: 'Created', width: '5rem', cell: (delivery) => <Time at={delivery.created_at} /> },
  { header: 'Tries', width: '2.5rem', align: 'end', cell: ({ tries }) => formatCount(tries) },
  {
    header: 'Answer',
    width: 'minmax(6rem, 2fr)',
    card: 'full',
    cell: (delivery) => <Line text={answerOf(delivery)} />,
  },
  { header: 'Send', width: '6rem', align: 'end', cell: (delivery) => <RedeliverButton id={delivery.id} /> },
];

/** Sends a message once more, and says what came back. */
function RedeliverButton({ id }: { readonly id: string }) {
  const api = useApi();
  const { id: webhook = '' } = useParams();
  const queries = useQueryClient();
  const sending = useMutation({
    mutationFn: () => {
      const params = { path: { id: webhook, delivery_id: id } };
      return unwrap(api.POST('/webhooks/{id}/deliveries/{delivery_id}/redeliver', { params }));
    },
    onSuccess: tellOutcome,
    onError: (error) => showToast('bad', describeError(error)),
    onSettled: () => queries.invalidateQueries({ queryKey: ['webhooks'] }),
  });
  return (
    <Button
      size="small"
      aria-label={`Redeliver ${id}`}
      isBusy={sending.isPending}
      onClick={() => sending.mutate()}
    >
      Redeliver
    </Button>
  );
}
