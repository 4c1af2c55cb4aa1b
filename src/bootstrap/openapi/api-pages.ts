import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { Injectable, NotFoundException, type INestApplication, type OnModuleInit } from '@nestjs/common';
import type { Request, Response } from 'express';
import { EXAMPLE_RUN_ID } from '../../common/http/api-examples.js';
import { packageVersion } from '@longshore/common/settings/package-version';
import { sendStaticFile, staticFile, type StaticFile } from '../../common/http/server/static-file.js';
import { describeApi } from './api-description.js';

/** The files of the package swagger-ui-dist that the page loads. Its source maps are several megabytes each. */
const UI_FILES = ['swagger-ui.css', 'swagger-ui-bundle.js', 'favicon-32x32.png'];

/** Keeps no key in the browser: `persistAuthorization` would store it where every script of the origin can read it. */
const UI_SCRIPT = `const script = document.currentScript.src;
// Requests are for the run of the last answer, where the example of a run's id was left.
let run = '${EXAMPLE_RUN_ID}';
const withRun = (text) => text.replaceAll('${EXAMPLE_RUN_ID}', run);
const idOf = (answer) => {
  if (answer?.current_attempt !== undefined) return answer.id;
  return answer?.data?.[0]?.id ?? answer?.results?.[0]?.run?.id;
};
window.onload = () => {
  SwaggerUIBundle({
    url: new URL('../docs-json', script).href,
    dom_id: '#swagger-ui',
    deepLinking: true,
    displayRequestDuration: true,
    persistAuthorization: false,
    requestInterceptor: (request) => {
      request.url = withRun(request.url);
      if (typeof request.body === 'string') request.body = withRun(request.body);
      return request;
    },
    responseInterceptor: (response) => {
      run = idOf(response.body) ?? run;
      return response;
    },
  });
};
`;

/** @param base where the files of the page are, relative to the page */
function pageOf(base: string): string {
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Longshore API</title>
<link rel="icon" href="${base}favicon-32x32.png">
<link rel="stylesheet" href="${base}swagger-ui.css">
</head>
<body>
<div id="swagger-ui"></div>
<script src="${base}swagger-ui-bundle.js"></script>
<script src="${base}swagger-ui-init.js"></script>
</body>
</html>
`;
}

/**
 * Serves Swagger UI at /docs and the document at /docs-json, from memory, made at the first request. `SwaggerModule.setup`
 * would serialize the document for each request and serve every file of the package from the disk, all of it without a key.
 * The routes are added when the application initializes, and so after the middleware, prefix and versions of an extension.
 */
@Injectable()
export class ApiPages implements OnModuleInit {
  #app: INestApplication | undefined;

  /** Sets the application to describe; without one nothing is served. */
  attach(app: INestApplication): void {
    this.#app = app;
  }

  onModuleInit(): void {
    if (this.#app === undefined) return;
    const app = this.#app;
    const http = app.getHttpAdapter();
    const serve = (path: string, name: string, content: () => string | Buffer): void => {
      const file = once(() => inMemory(name, content()));
      http.get(path, (request: Request, response: Response) => sendStaticFile(request, response, file()));
    };
    serve('/docs', 'index.html', () => pageOf('./docs/'));
    serve('/docs/', 'index.html', () => pageOf('./'));
    const document = once(() => Buffer.from(JSON.stringify(describeApi(app, packageVersion()))));
    serve('/docs-json', 'openapi.json', document);
    // JSON is YAML.
    serve('/docs-yaml', 'openapi.yaml', document);
    const files = once(uiFiles);
    http.get('/docs/:file', (request: Request<{ file: string }>, response: Response) => {
      const file = files().get(request.params.file);
      if (file === undefined) throw new NotFoundException('Not found');
      sendStaticFile(request, response, file);
    });
  }
}

function uiFiles(): ReadonlyMap<string, StaticFile> {
  // The package is a dependency of @nestjs/swagger.
  const swagger = createRequire(createRequire(import.meta.url).resolve('@nestjs/swagger'));
  const folder = dirname(swagger.resolve('swagger-ui-dist/package.json'));
  return new Map([
    ...UI_FILES.map((name) => [name, inMemory(name, readFileSync(join(folder, name)))] as const),
    ['swagger-ui-init.js', inMemory('swagger-ui-init.js', UI_SCRIPT)],
  ]);
}

/** Makes a value when it is asked for, and keeps it. */
function once<T>(make: () => T): () => T {
  let made: { readonly value: T } | undefined;
  return () => (made ??= { value: make() }).value;
}

function inMemory(name: string, content: string | Buffer): StaticFile {
  return staticFile(name, new Map([['identity', Buffer.from(content)]]));
}
