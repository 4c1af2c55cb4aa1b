import type { Type } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import type { NestExpressApplication } from '@nestjs/platform-express';
import { AppModule, type AppParts } from '../app.module.js';
import { Drain } from '../common/http/server/drain.js';
import { FastExpressAdapter } from '../common/http/server/fast-express.adapter.js';
import { RequestTracer } from '../common/http/server/request-tracer.js';
import { NestLogger } from '../common/logging/nest-logger.js';
import { HttpMetrics } from '../common/metrics/http-metrics.js';
import { ApiPages } from './openapi/api-pages.js';

/**
 * Creates the application. Until `init()` or `listen()` it can be configured like any Nest application.
 * @param extensions modules to import beside the service's own
 */
export async function createApp(
  parts: AppParts,
  extensions: readonly Type[] = [],
): Promise<NestExpressApplication> {
  const tracer = parts.tracing ? new RequestTracer(parts.tracing) : null;
  const app = await NestFactory.create<NestExpressApplication>(
    AppModule.register(parts, extensions),
    new FastExpressAdapter(parts.settings, tracer),
    { bodyParser: false, logger: new NestLogger(parts.log), abortOnError: false },
  );
  app.get(Drain).attach(app.getHttpServer());
  app.get(HttpMetrics).attach(app.getHttpServer());
  app.get(ApiPages).attach(app);
  return app;
}
