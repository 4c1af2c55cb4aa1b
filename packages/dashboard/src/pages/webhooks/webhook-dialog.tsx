import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useLocation } from 'wouter';
import { unwrap } from '../../api/answers.js';
import { useApi, type Schemas } from '../../api/use-api.js';
import { ShownOnceDialog } from '../../components/feedback/shown-once-dialog.js';
import { BodyDialog } from '../../run-form/body-dialog.js';
import { FormRows } from '../../run-form/form-rows.js';
import type { Json } from '../../run-form/form-values.js';
import { field, type FieldRows } from '../../run-form/run-fields.js';
import type { Webhook } from './webhook-badge.js';

interface Props {
  readonly onClose: () => void;
  /** What is changed; absent: a new one is asked for. */
  readonly webhook?: Webhook;
}

/** Asks whom a webhook tells of what, stores it, and shows the secret of a new one: once. */
export function WebhookDialog({ onClose, webhook }: Props) {
  const [, navigate] = useLocation();
  const storing = useStore(webhook?.id, onClose);
  if (storing.data !== undefined && 'secret' in storing.data) {
    const { id, url, secret } = storing.data;
    const close = (): void => {
      onClose();
      navigate(`/webhooks/${id}`);
    };
    return <WebhookSecret onClose={close} url={url} secret={secret} />;
  }
  return (
    <BodyDialog
      onClose={onClose}
      title={webhook === undefined ? 'New webhook' : 'Edit the webhook'}
      what="Webhook"
      start={webhook === undefined ? { url: '' } : toBody(webhook)}
      fields={ROWS.flat()}
      storing={storing}
    >
      {(form) => <FormRows rows={ROWS} focus="url" {...form} />}
    </BodyDialog>
  );
}

interface SecretProps {
  readonly onClose: () => void;
  readonly url: string;
  readonly secret: string;
}

/** The secret of a webhook, which is shown once. */
export function WebhookSecret({ onClose, url, secret }: SecretProps) {
  return (
    <ShownOnceDialog
      onClose={onClose}
      title="The secret of the webhook"
      what="secret"
      label="Secret"
      value={secret}
    >
      The receiver at {url} verifies messages with it.
    </ShownOnceDialog>
  );
}

/** Stores what is entered. An empty list is sent as none, so that it takes the place of the one before. */
function useStore(stored: string | undefined, onClose: () => void) {
  const api = useApi();
  const queries = useQueryClient();
  return useMutation({
    mutationFn: (entered: Json): Promise<Webhook | Schemas['WebhookWithSecret']> => {
      if (stored === undefined) {
        return unwrap(api.POST('/webhooks', { body: { url: '', ...entered } }));
      }
      // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- what people enter; the service checks it
      const body = { description: '', where: {}, include: [], ...entered } as Schemas['WebhookUpdate'];
      return unwrap(api.PATCH('/webhooks/{id}', { params: { path: { id: stored } }, body }));
    },
    onSuccess: async () => {
      await queries.invalidateQueries({ queryKey: ['webhooks'] });
      if (stored !== undefined) onClose();
    },
  });
}

function toBody({ url, description, events, where, include }: Webhook): object {
  return { url, description, events, where, ...(include.length > 0 && { include }) };
}

const ROWS: FieldRows = [
  [field('text', 'url', 'URL', 'An https address')],
  [field('text', 'description', 'Description', 'What it is for; optional')],
  [
    field(
      'list',
      'events',
      'Events',
      'Such as run.failed, run.recovered, group.ended; default: run.completed, run.failed, run.cancelled',
    ),
    field('list', 'include', 'Include', 'outputs: those of ended runs, up to 20 KiB'),
  ],
  [
    field('list', 'where.definition', 'Only of definitions', 'Ids; default: all'),
    field('list', 'where.schedule', 'Only of schedules', 'Ids; default: all'),
  ],
  [
    field('list', 'where.topic', 'Only of topics', 'Topics; default: all'),
    field('list', 'where.label', 'Only with labels', 'Such as team=vision'),
  ],
];
