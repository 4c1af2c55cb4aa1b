import { Injectable, type INestApplication, type OnModuleInit } from '@nestjs/common';
import { packageVersion } from '@longshore/common/settings/package-version';
import { describeApi, serveApiDescription } from './api-description.js';

/**
 * Serves the API description when the application initializes: behind the middleware, and with the global prefix and the
 * versions, that were added to the application after it was created.
 */
@Injectable()
export class ApiPages implements OnModuleInit {
  #app: INestApplication | undefined;

  /** Sets the application to describe; without one nothing is served. */
  attach(app: INestApplication): void {
    this.#app = app;
  }

  onModuleInit(): void {
    if (this.#app !== undefined) serveApiDescription(this.#app, describeApi(this.#app, packageVersion()));
  }
}
