import { useState, type ReactNode } from 'react';
import { useLocation } from 'wouter';
import { unwrap, unwrapEmpty } from '../../api/answers.js';
import { useApi, type LongshoreClient, type Schemas } from '../../api/use-api.js';
import { Button } from '../../components/controls/button.js';
import { ConfirmDialog } from '../../components/feedback/dialog.js';
import { showToast } from '../../components/feedback/toasts.js';
import { formatDuration } from '../../lib/format.js';
import { FormRows } from '../../run-form/form-rows.js';
import { readForm, type FormField, type FormValues, type Json } from '../../run-form/form-values.js';
import { field } from '../../run-form/run-fields.js';
import { WebhookDialog, WebhookSecret } from './webhook-dialog.js';
import type { Webhook } from './webhook-badge.js';

type Delivery = Schemas['WebhookDelivery'];
type Action = 'test' | 'replay' | 'rotate' | 'disable' | 'enable' | 'delete';

interface Words {
  readonly label: string;
  readonly text: ReactNode;
  readonly fields?: readonly FormField[];
}

const WORDS: Readonly<Record<Action, Words>> = {
  test: {
    label: 'Test',
    text: 'It is sent a message of type webhook.test, once, also while it is disabled.',
  },
  replay: {
    label: 'Replay',
    text: 'The events of a time are sent again, with the same ids. Without an end the webhook goes back to the beginning and goes on from there.',
    fields: [
      { ...field('time', 'from', 'From', 'The first events'), required: 'Enter a time.' },
      field('time', 'until', 'Until', 'Optional'),
    ],
  },
  rotate: {
    label: 'Rotate secret',
    text: 'Messages are signed with a new secret, which is shown once.',
    fields: [field('integer', 'keep_old_s', 'Old secret signs, too, for s', 'Default 0')],
  },
  disable: { label: 'Disable', text: 'It is sent nothing until it is enabled. It goes on where it stopped.' },
  enable: { label: 'Enable', text: 'It goes on where it stopped.' },
  delete: {
    label: 'Delete',
    text: 'Its deliveries are deleted, and what waits for another try is not sent.',
  },
};

/** What may be done to a webhook. */
export function WebhookActions({ webhook }: { readonly webhook: Webhook }) {
  const [asked, setAsked] = useState<Action>();
  const [isEditing, setEditing] = useState(false);
  const [secret, setSecret] = useState<string>();
  const { url, enabled } = webhook;
  const shown = ['test', 'replay', 'rotate', enabled ? 'disable' : 'enable', 'delete'] as const;
  return (
    <>
      <Button size="small" onClick={() => setEditing(true)}>
        Edit
      </Button>
      {shown.map((action) => (
        <Button key={action} size="small" onClick={() => setAsked(action)}>
          {WORDS[action].label}
        </Button>
      ))}
      {isEditing && <WebhookDialog onClose={() => setEditing(false)} webhook={webhook} />}
      {asked !== undefined && (
        <Question action={asked} webhook={webhook} onClose={() => setAsked(undefined)} onSecret={setSecret} />
      )}
      {secret !== undefined && (
        <WebhookSecret onClose={() => setSecret(undefined)} url={url} secret={secret} />
      )}
    </>
  );
}

interface Props {
  readonly action: Action;
  readonly webhook: Webhook;
  readonly onClose: () => void;
  readonly onSecret: (secret: string) => void;
}

function Question({ action, webhook: { id }, onClose, onSecret }: Props) {
  const api = useApi();
  const [, navigate] = useLocation();
  const [values, setValues] = useState<FormValues>({});
  const { label, text, fields = [] } = WORDS[action];
  const { body, errors } = readForm(fields, values);
  const entered = Object.entries(errors).filter(([path]) => values[path] !== undefined);
  return (
    <ConfirmDialog
      onClose={onClose}
      title={`${label}?`}
      confirmLabel={label}
      isDangerous={action === 'delete'}
      isDisabled={Object.keys(errors).length > 0}
      refreshes="webhooks"
      onConfirm={async () => {
        const secret = await carryOut(api, action, id, body);
        if (secret !== undefined) onSecret(secret);
        if (action === 'delete') navigate('/webhooks');
      }}
    >
      <p>{text}</p>
      <FormRows
        rows={[fields]}
        values={values}
        errors={Object.fromEntries(entered)}
        onChange={(path, value) => setValues((now) => ({ ...now, [path]: value }))}
      />
    </ConfirmDialog>
  );
}

/** Does it, and says what became of it. @returns the new secret, of a rotation */
async function carryOut(
  api: LongshoreClient,
  action: Action,
  id: string,
  body: Json,
): Promise<string | undefined> {
  const params = { path: { id } };
  switch (action) {
    case 'test':
      tellOutcome(await unwrap(api.POST('/webhooks/{id}/test', { params })));
      return undefined;
    case 'replay': {
      const range = { ...body, from: String(body['from']) };
      await unwrap(api.POST('/webhooks/{id}/replay', { params, body: range }));
      showToast('good', 'The events are sent again.');
      return undefined;
    }
    case 'rotate':
      return (await unwrap(api.POST('/webhooks/{id}/rotate-secret', { params, body }))).secret;
    case 'disable':
    case 'enable':
      await unwrap(api.PATCH('/webhooks/{id}', { params, body: { enabled: action === 'enable' } }));
      showToast('good', `The webhook is ${action}d.`);
      return undefined;
    case 'delete':
      await unwrapEmpty(api.DELETE('/webhooks/{id}', { params }));
      showToast('good', 'The webhook is deleted.');
      return undefined;
  }
}

/** Says what became of a message. */
export function tellOutcome(delivery: Delivery): void {
  const isGood = delivery.status !== null && delivery.status >= 200 && delivery.status < 300;
  showToast(isGood ? 'good' : 'bad', `${isGood ? 'Delivered' : 'Not delivered'}: ${answerOf(delivery)}`);
}

/** What came back to the last try. */
export function answerOf({ status, duration_ms: duration, detail }: Delivery): string {
  const parts = [status, duration === null ? null : `in ${formatDuration(duration)}`, detail];
  return parts.filter((part) => part !== null && part !== '').join(' ');
}
