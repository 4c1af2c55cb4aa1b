import 'reflect-metadata';
import { Test } from '@nestjs/testing';
import type { NestExpressApplication } from '@nestjs/platform-express';
import { AppModule } from '../../../src/app.module.js';
import { ENTITIES } from '../../../src/database/entities/all.js';
import { FEED_LIMITS, DEFAULT_FEED_LIMITS, type FeedLimits } from '../../../src/feed/feed-limits.js';
import { Drain } from '../../../src/common/http/server/drain.js';
import { FastExpressAdapter } from '../../../src/common/http/server/fast-express.adapter.js';
import { createLog } from '../../../src/common/logging/logger.js';
import { NestLogger } from '../../../src/common/logging/nest-logger.js';
import { SettingsModule } from '../../../src/config/settings.module.js';
import { KEYS, senderTo, type Send, type TestApp } from './test-app.js';
import { openTestDatabase, type TestDatabase } from '../test-database.js';

/** What an application with other limits differs in. */
export interface FeedAppOptions {
  readonly limits?: Partial<FeedLimits>;
  readonly env?: Readonly<Record<string, string>>;
  /** A database that another application uses too. */
  readonly database?: TestDatabase;
}

/** Starts an application whose feed has other limits than the service's; everything else is as in the service. */
export async function startFeedApp({ limits, env, database: given }: FeedAppOptions): Promise<TestApp> {
  const keys = Object.entries(KEYS).map(([scope, key]) => `${scope}:${key}`);
  const configuration = await SettingsModule.load([], {
    SERVICE_API_KEYS: keys.join(','),
    SERVICE_LOG_LEVEL: 'debug',
    // A slow reader is held up by events of 20 MB.
    SERVICE_MAX_ATTEMPT_EVENT_BYTES: '100000000',
    ...env,
  });
  const { settings } = configuration;
  const database = given ?? (await openTestDatabase({ entities: ENTITIES }));
  const dataSource = await database.open(settings.dbPoolSize - 1);
  const logged: Record<string, unknown>[] = [];
  const log = createLog(settings, {
    destination: { write: (line: string) => void logged.push(JSON.parse(line)) },
    pretty: false,
  });
  const module = await Test.createTestingModule({
    imports: [AppModule.register({ ...configuration, log, dataSource })],
  })
    .overrideProvider(FEED_LIMITS)
    .useValue({ ...DEFAULT_FEED_LIMITS, ...limits })
    .compile();
  const app = module.createNestApplication<NestExpressApplication>(new FastExpressAdapter(settings), {
    bodyParser: false,
    logger: new NestLogger(log),
  });
  app.get(Drain).attach(app.getHttpServer());
  await app.listen(0, '127.0.0.1');
  const url = await app.getUrl();
  return {
    url,
    app,
    database,
    dataSource,
    logged,
    send: senderTo(url),
    close: async () => {
      await app.close();
      if (given === undefined) await database.close();
    },
  };
}

/** Creates a run whose events go to the topic; answers its id. */
export async function createRun(send: Send, topic: string | null): Promise<string> {
  const delivery = topic === null ? {} : { event_delivery: { topic } };
  const created = await send('POST', '/runs', { body: { image: 'image', ...delivery } });
  if (created.status !== 201) throw new Error(`a run could not be created: ${created.text}`);
  return String(created.body.id);
}

/** Posts an event that has no effect on its run's state. @returns the status of the answer, 204 unless it was refused */
export async function note(send: Send, runId: string, msg: string | number, payload = {}): Promise<number> {
  const answer = await send('POST', `/runs/${runId}/events`, {
    body: { type: 'NOTE', msg, payload },
    headers: { Prefer: 'return=minimal' },
  });
  return answer.status;
}
