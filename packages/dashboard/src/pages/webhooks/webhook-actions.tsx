import { useState } from 'react';
import { useLocation } from 'wouter';
import { unwrap, unwrapEmpty } from '../../api/answers.js';
import { useApi, type Schemas } from '../../api/use-api.js';
import { Button } from '../../components/controls/button.js';
import { showToast } from '../../components/feedback/toasts.js';
import { formatDuration } from '../../lib/format.js';
import { ItemActions, type ItemAction } from '../../run-form/item-actions.js';
import { field } from '../../run-form/run-fields.js';
import type { Webhook } from './webhook-badge.js';
import { WebhookDialog, WebhookSecret } from './webhook-dialog.js';

type Delivery = Schemas['WebhookDelivery'];

const FROM = { ...field('time', 'from', 'From', 'The first events'), required: 'Enter a time.' };

/** What may be done to a webhook. */
export function WebhookActions({ webhook }: { readonly webhook: Webhook }) {
  const api = useApi();
  const [, navigate] = useLocation();
  const [isEditing, setEditing] = useState(false);
  const [secret, setSecret] = useState<string>();
  const { id, url, enabled } = webhook;
  const params = { path: { id } };
  const actions: readonly ItemAction[] = [
    {
      label: 'Test',
      text: 'It is sent a message of type webhook.test, once, also while it is disabled.',
      carryOut: async () => tellOutcome(await unwrap(api.POST('/webhooks/{id}/test', { params }))),
    },
    {
      label: 'Replay',
      text: 'The events of a time are sent again, with the same ids. Without an end the webhook goes back to the beginning and goes on from there.',
      fields: [FROM, field('time', 'until', 'Until', 'Optional')],
      carryOut: async (range) => {
        const body = { ...range, from: String(range['from']) };
        await unwrap(api.POST('/webhooks/{id}/replay', { params, body }));
        showToast('good', 'The events are sent again.');
      },
    },
    {
      label: 'Rotate secret',
      text: 'Messages are signed with a new secret, which is shown once.',
      fields: [field('integer', 'keep_old_s', 'Old secret signs, too, for s', 'Default 0')],
      carryOut: async (body) => {
        setSecret((await unwrap(api.POST('/webhooks/{id}/rotate-secret', { params, body }))).secret);
      },
    },
    {
      label: enabled ? 'Disable' : 'Enable',
      text: `${enabled ? 'It is sent nothing until it is enabled. ' : ''}It goes on where it stopped.`,
      carryOut: async () => {
        await unwrap(api.PATCH('/webhooks/{id}', { params, body: { enabled: !enabled } }));
        showToast('good', `The webhook is ${enabled ? 'disabled' : 'enabled'}.`);
      },
    },
    {
      label: 'Delete',
      text: 'Its deliveries are deleted, and what waits for another try is not sent.',
      isDangerous: true,
      carryOut: async () => {
        await unwrapEmpty(api.DELETE('/webhooks/{id}', { params }));
        showToast('good', 'The webhook is deleted.');
        navigate('/webhooks');
      },
    },
  ];
  return (
    <>
      <Button size="small" onClick={() => setEditing(true)}>
        Edit
      </Button>
      <ItemActions actions={actions} refreshes="webhooks" />
      {isEditing && <WebhookDialog onClose={() => setEditing(false)} webhook={webhook} />}
      {secret !== undefined && (
        <WebhookSecret onClose={() => setSecret(undefined)} url={url} secret={secret} />
      )}
    </>
  );
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
