import type { INestApplication } from '@nestjs/common';
import { DocumentBuilder, SwaggerModule, type OpenAPIObject } from '@nestjs/swagger';
import { eventSchemas } from '../../runs/dto/event-schemas.js';
import { applyRules } from './document-rules.js';

const DESCRIPTION = `Longshore queues runs of container images, assigns them to workers that claim work, and stores every
attempt, event and output.

- Send an API key in \`X-API-Key\` or as \`Authorization: Bearer\`.
- Every error has the body \`{detail, errors?}\`; \`GET /health\` is the one exception.
- Unknown query parameters are refused with 400. So are unknown fields of a body, except in heartbeats.
- An optional field of a body may be null, which means the same as leaving it out.
- Responses may gain fields; ignore those that you do not know.`;

/** The OpenAPI document of the application's routes. */
export function describeApi(app: INestApplication, version: string): OpenAPIObject {
  const config = new DocumentBuilder()
    .setTitle('Longshore')
    .setDescription(DESCRIPTION)
    .setVersion(version)
    .setOpenAPIVersion('3.1.0')
    .addServer('.')
    .addApiKey({ type: 'apiKey', in: 'header', name: 'X-API-Key', description: 'An API key.' }, 'api-key')
    .addBearerAuth({ type: 'http', bearerFormat: 'API key', description: 'The same API key.' }, 'bearer')
    .addTag('runs', 'Create runs and follow them')
    .addTag('definitions', 'Versioned templates for runs')
    .addTag('groups', 'Create runs that wait for each other, and arrays')
    .addTag('schedules', 'Make runs at the times of cron expressions and intervals')
    .addTag('feed', 'Read the events of a topic')
    .addTag('workers', 'Register workers and claim runs')
    .addTag('logs', 'Send and read the output of containers')
    .addTag('bulk', 'Create, change and report many runs in one request')
    .addTag('files', 'Upload files, and download them')
    .addTag('secrets', 'Store secrets, and read those of a run')
    .addTag('webhooks', 'Let endpoints be told of events')
    .addTag('operations', 'Health, metrics, API keys, pauses and capacity')
    .build();
  const document = SwaggerModule.createDocument(app, config);
  Object.assign(document.components?.schemas ?? {}, eventSchemas());
  applyRules(document);
  return document;
}
