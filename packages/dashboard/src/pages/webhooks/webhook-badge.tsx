import type { Schemas } from '../../api/use-api.js';
import { Badge } from '../../components/values/badge.js';

/** A webhook as the API has it. */
export type Webhook = Schemas['Webhook'];

/** Whether a webhook works. */
export function WebhookBadge({
  webhook: { enabled, failures, disabled_reason: reason },
}: {
  readonly webhook: Webhook;
}) {
  if (!enabled) {
    return (
      <span title={reason ?? undefined}>
        <Badge tone={reason === null ? 'neutral' : 'bad'}>disabled</Badge>
      </span>
    );
  }
  return failures === 0 ? <Badge tone="good">enabled</Badge> : <Badge tone="warn">failing</Badge>;
}
