import { DomainError } from '../common/errors/domain-error.js';

/** No webhook has this id. */
export class WebhookNotFound extends DomainError {
  readonly kind = 'not-found';

  constructor(id: string) {
    super(`Webhook '${id}' not found`);
  }
}

/** The webhook has no delivery with this id, or it is no longer kept. */
export class DeliveryNotFound extends DomainError {
  readonly kind = 'not-found';

  constructor(id: string) {
    super(`Delivery '${id}' not found`);
  }
}

/** There are as many webhooks as there may be. */
export class TooManyWebhooks extends DomainError {
  readonly kind = 'conflict';

  constructor(max: number) {
    super(`There are ${max} webhooks already`);
  }
}
