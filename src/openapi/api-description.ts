import type { INestApplication } from '@nestjs/common';
import { DocumentBuilder, SwaggerModule, type OpenAPIObject } from '@nestjs/swagger';

const DESCRIPTION = `Longshore queues runs of container images, hands them to workers that ask for work, and keeps every
attempt, event and output. Every error answers with \`{detail, errors?}\`.`;

/** The OpenAPI document of the application's routes. */
export function describeApi(app: INestApplication, version: string): OpenAPIObject {
  const config = new DocumentBuilder()
    .setTitle('Longshore')
    .setDescription(DESCRIPTION)
    .setVersion(version)
    .setOpenAPIVersion('3.1.0')
    .addApiKey(
      {
        type: 'apiKey',
        in: 'header',
        name: 'X-API-Key',
        description: '`Authorization: Bearer` works as well.',
      },
      'api-key',
    )
    .addTag('runs', 'Create runs and follow them')
    .addTag('logs', 'Send and read what containers print')
    .addTag('definitions', 'Versioned templates for runs')
    .addTag('feed', 'Read the events of a topic')
    .addTag('workers', 'Register workers and claim work')
    .addTag('operations', 'Health and metrics')
    .build();
  return SwaggerModule.createDocument(app, config);
}

/** Serves the document: Swagger UI at /docs, JSON at /docs-json. */
export function serveApiDescription(app: INestApplication, document: OpenAPIObject): void {
  SwaggerModule.setup('docs', app, document, {
    jsonDocumentUrl: 'docs-json',
    yamlDocumentUrl: 'docs-yaml',
    customSiteTitle: 'Longshore API',
    swaggerOptions: { persistAuthorization: true, displayRequestDuration: true },
  });
}
