import 'reflect-metadata';
import { NestFactory } from '@nestjs/core';
import { DataSource } from 'typeorm';
import { AppModule } from '../../app.module.js';
import { dataSourceOptions } from '../../database/data-source.js';
import { FastExpressAdapter } from '../../common/http/server/fast-express.adapter.js';
import { createLog } from '../../common/logging/logger.js';
import { packageVersion } from '@longshore/common/settings/package-version';
import { SettingsModule } from '../../config/settings.module.js';
import { describeApi } from './api-description.js';

// A program that prints the OpenAPI document. Nest's preview mode knows the routes without making any part of the
// application, so no database is needed.
const configuration = await SettingsModule.load([], {});
const log = createLog({ logLevel: 'error' });
const dataSource = new DataSource(
  dataSourceOptions({
    url: 'postgres://nowhere',
    poolSize: 1,
    applicationName: 'none',
    entities: [],
    migrations: [],
  }),
);
const app = await NestFactory.create(
  AppModule.register({ ...configuration, log, dataSource }),
  new FastExpressAdapter(configuration.settings),
  { preview: true, logger: false, abortOnError: false },
);
process.stdout.write(`${JSON.stringify(describeApi(app, packageVersion()), null, 2)}\n`);
