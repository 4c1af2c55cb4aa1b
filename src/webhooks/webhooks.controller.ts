import {
  Body,
  Controller,
  Delete,
  Get,
  Header,
  HttpCode,
  Param,
  Patch,
  Post,
  Query,
  Res,
  type StreamableFile,
} from '@nestjs/common';
import {
  ApiAcceptedResponse,
  ApiCreatedResponse,
  ApiNoContentResponse,
  ApiOkResponse,
  ApiParam,
  ApiTags,
} from '@nestjs/swagger';
import type { Response } from 'express';
import { AllowScopes, type Caller } from '../auth/access.js';
import { CurrentCaller } from '../auth/api-key.guard.js';
import { WEBHOOK_DELIVERY_ID_PARAM, WEBHOOK_ID_PARAM } from '../common/http/api-examples.js';
import {
  ApiErrors,
  ApiResource,
  ApiSwitchedOffError,
  NO_STORE_HEADER,
} from '../common/http/errors/error.dto.js';
import { ApiPage } from '../common/http/next-page.js';
import { TakesDatabaseTurn } from '../common/http/server/database-turns.js';
import { answerPage } from '../runs/http/json-stream.js';
import { ListDeliveriesQueryDto, WebhookDeliveryDto } from './dto/delivery.dto.js';
import {
  CreateWebhookDto,
  ReplayDto,
  RotateSecretDto,
  UpdateWebhookDto,
  WebhookDto,
  WebhookWithSecretDto,
} from './dto/webhook.dto.js';
import { WebhookDeliveriesService } from './webhook-deliveries.service.js';
import { WebhooksService } from './webhooks.service.js';

@ApiTags('webhooks')
@Controller('webhooks')
@AllowScopes('admin')
export class WebhooksController {
  constructor(
    private readonly webhooks: WebhooksService,
    private readonly deliveries: WebhookDeliveriesService,
  ) {}

  /**
   * Create a webhook
   * @remarks It is told of what happens from now on. Messages are signed as Standard Webhooks 1.0 describes; only this response
   * holds the secret. There are at most 100 webhooks.
   */
  @Post()
  @TakesDatabaseTurn()
  @Header('Cache-Control', 'no-store')
  @ApiCreatedResponse({ type: WebhookWithSecretDto, description: 'The webhook.', headers: NO_STORE_HEADER })
  @ApiErrors(409)
  @ApiSwitchedOffError('the storage of secrets')
  createWebhook(
    @Body() body: CreateWebhookDto,
    @CurrentCaller() caller: Caller,
  ): Promise<WebhookWithSecretDto> {
    return this.webhooks.create(body, caller);
  }

  /**
   * List webhooks
   * @remarks The oldest first, all of them.
   */
  @Get()
  @TakesDatabaseTurn()
  @ApiOkResponse({ type: [WebhookDto], description: 'All webhooks.' })
  listWebhooks(): Promise<WebhookDto[]> {
    return this.webhooks.list();
  }

  /**
   * Get a webhook
   * @remarks With how far it has read, and how many messages wait for another try.
   */
  @Get(':id')
  @TakesDatabaseTurn()
  @ApiResource(WEBHOOK_ID_PARAM)
  @ApiOkResponse({ type: WebhookDto, description: 'The webhook.' })
  getWebhook(@Param('id') id: string): Promise<WebhookDto> {
    return this.webhooks.get(id);
  }

  /**
   * Change a webhook
   * @remarks One that is enabled again goes on where it stopped.
   */
  @Patch(':id')
  @TakesDatabaseTurn()
  @ApiResource(WEBHOOK_ID_PARAM)
  @ApiOkResponse({ type: WebhookDto, description: 'The webhook.' })
  updateWebhook(
    @Param('id') id: string,
    @Body() body: UpdateWebhookDto,
    @CurrentCaller() caller: Caller,
  ): Promise<WebhookDto> {
    return this.webhooks.update(id, body, caller);
  }

  /**
   * Delete a webhook
   * @remarks Messages that wait for another try are not sent.
   */
  @Delete(':id')
  @TakesDatabaseTurn()
  @HttpCode(204)
  @ApiResource(WEBHOOK_ID_PARAM)
  @ApiNoContentResponse({ description: 'Deleted.' })
  deleteWebhook(@Param('id') id: string, @CurrentCaller() caller: Caller): Promise<void> {
    return this.webhooks.delete(id, caller);
  }

  /**
   * Replace the secret of a webhook
   * @remarks Only this response holds the new secret. For `keep_old_s` seconds messages have a signature of each.
   */
  @Post(':id/rotate-secret')
  @TakesDatabaseTurn()
  @HttpCode(200)
  @Header('Cache-Control', 'no-store')
  @ApiResource(WEBHOOK_ID_PARAM)
  @ApiOkResponse({ type: WebhookWithSecretDto, description: 'The webhook.', headers: NO_STORE_HEADER })
  @ApiSwitchedOffError('the storage of secrets')
  rotateWebhookSecret(
    @Param('id') id: string,
    @Body() { keep_old_s: keepOldS = 0 }: RotateSecretDto,
    @CurrentCaller() caller: Caller,
  ): Promise<WebhookWithSecretDto> {
    return this.webhooks.rotateSecret(id, keepOldS, caller);
  }

  /**
   * Send a test message
   * @remarks Its type is `webhook.test`. It is tried once, also of a webhook that is disabled; the response tells what came of it.
   */
  @Post(':id/test')
  @HttpCode(200)
  @ApiResource(WEBHOOK_ID_PARAM)
  @ApiOkResponse({ type: WebhookDeliveryDto, description: 'The delivery, of state `delivered` or `failed`.' })
  testWebhook(@Param('id') id: string): Promise<WebhookDeliveryDto> {
    return this.deliveries.test(id);
  }

  /**
   * List the deliveries of a webhook, the newest first
   * @remarks Those that are not parked are kept for 7 days. Continue with the last id of the page as `after`, or follow the header `Link`.
   */
  @Get(':id/deliveries')
  @TakesDatabaseTurn()
  @ApiResource(WEBHOOK_ID_PARAM)
  @ApiPage(WebhookDeliveryDto, 'A page of deliveries.')
  async listWebhookDeliveries(
    @Param('id') id: string,
    @Query() query: ListDeliveriesQueryDto,
    @Res({ passthrough: true }) response: Response,
  ): Promise<StreamableFile> {
    return answerPage(response, await this.deliveries.list(id, query), (delivery) => delivery.id);
  }

  /**
   * Send a delivery once more
   * @remarks Whatever its state is, at once and with the same `webhook-id`. If that fails, its state stays.
   */
  @Post(':id/deliveries/:delivery_id/redeliver')
  @HttpCode(200)
  @ApiResource(WEBHOOK_ID_PARAM)
  @ApiParam(WEBHOOK_DELIVERY_ID_PARAM)
  @ApiOkResponse({ type: WebhookDeliveryDto, description: 'The delivery with the new try.' })
  redeliverWebhook(
    @Param('id') id: string,
    @Param('delivery_id') deliveryId: string,
    @CurrentCaller() caller: Caller,
  ): Promise<WebhookDeliveryDto> {
    return this.deliveries.redeliver(id, deliveryId, caller);
  }

  /**
   * Send the events of a time again
   * @remarks With the same ids as before. Without `until` the webhook is set back to `from`, and goes on from there. With `until` that
   * time is sent again beside what is new; it takes the place of an earlier replay that has not ended.
   */
  @Post(':id/replay')
  @TakesDatabaseTurn()
  @HttpCode(202)
  @ApiResource(WEBHOOK_ID_PARAM)
  @ApiAcceptedResponse({ type: WebhookDto, description: 'The webhook.' })
  replayWebhook(
    @Param('id') id: string,
    @Body() body: ReplayDto,
    @CurrentCaller() caller: Caller,
  ): Promise<WebhookDto> {
    return this.webhooks.replay(id, body, caller);
  }
}
