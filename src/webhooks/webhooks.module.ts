import { Module } from '@nestjs/common';
import { TypeOrmModule } from '@nestjs/typeorm';
import { WebhookDeliveryEntity, WebhookEntity } from '../database/entities/webhook.entity.js';
import { RunsModule } from '../runs/runs.module.js';
import { SecretsModule } from '../secrets/secrets.module.js';
import { DeliveryRepository } from './delivery.repository.js';
import { EndpointAddresses } from './delivery/endpoint-addresses.js';
import { TurnRepository } from './delivery/turn.repository.js';
import { WebhookSender } from './delivery/webhook-sender.js';
import { WebhookTurns } from './delivery/webhook-turn.js';
import { OccurrencesReader } from './occurrences.reader.js';
import { WebhookDeliveriesService } from './webhook-deliveries.service.js';
import { WebhookMetrics } from './webhook-metrics.js';
import { WebhookSecrets } from './webhook-secrets.js';
import { WebhookRepository } from './webhook.repository.js';
import { WebhooksController } from './webhooks.controller.js';
import { WebhooksJob } from './webhooks.job.js';
import { WebhooksService } from './webhooks.service.js';

/** Webhooks: endpoints of others that are told what happens to runs. */
@Module({
  imports: [RunsModule, SecretsModule, TypeOrmModule.forFeature([WebhookEntity, WebhookDeliveryEntity])],
  controllers: [WebhooksController],
  providers: [
    WebhookRepository,
    TurnRepository,
    DeliveryRepository,
    OccurrencesReader,
    EndpointAddresses,
    WebhookSecrets,
    WebhookSender,
    WebhookMetrics,
    WebhookTurns,
    WebhooksJob,
    WebhooksService,
    WebhookDeliveriesService,
  ],
})
export class WebhooksModule {}
