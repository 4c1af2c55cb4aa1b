import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, it } from 'vitest';
import { parseEnv } from 'node:util';
import { KNOWN_VARIABLES } from '@longshore/common/settings/unknown-variables';
import { ARRAY_INDEX, ARRAY_SIZE, FILES_ROOT, SCHEDULED_FOR } from '@longshore/common/variable-names';
import { workerEnvironment } from '@longshore/worker/runtime/runtime';
import { loadWorkerSettings, WORKER_SETTINGS } from '@longshore/worker/settings/worker-settings';
import { SETTING_KEYS } from '../../../src/config/settings.js';
import { PROJECT } from '../../support/service-process.js';

describe('the part of .env.example about the worker', () => {
  it('names the variables that the service does not have, and changes nothing when copied or uncommented', async () => {
    const example = await readFile(join(PROJECT, '.env.example'), 'utf8');
    const [, text = ''] = example.split('# --- generated');
    const ofService = new Set(SETTING_KEYS.map(({ env }) => env));
    const names = [...text.matchAll(/^#?([A-Z_]+)=/gm)].map(([, name]) => name);
    assert.deepEqual(
      names,
      WORKER_SETTINGS.map(({ env }) => env).filter((name) => !ofService.has(name)),
    );
    assert.deepEqual({ ...parseEnv(text) }, {});
    const uncommented = parseEnv(text.replaceAll(/^#(?=[A-Z_]+=)/gm, ''));
    const key = { SERVICE_API_KEY: 'k' };
    assert.deepEqual(loadWorkerSettings([], { ...uncommented, ...key }), loadWorkerSettings([], key));
  });
});

describe('the known variables', () => {
  it('are those of the tables of settings, of containers and of the conformance kit', () => {
    const ofPrograms = [...SETTING_KEYS, ...WORKER_SETTINGS]
      .flatMap(({ env, flag }) => (flag === undefined ? [env, `${env}_FILE`] : [env]))
      .filter((name) => name.startsWith('SERVICE_'));
    const attempt = { runId: 'r', attempt: 1, trace: null };
    const ofContainers = Object.keys(workerEnvironment(attempt, { cpuMillis: 0, ramMb: 0 }, '/')).filter(
      (name) => name.startsWith('SERVICE_'),
    );
    const ofConformanceKit = ['SERVICE_WORKER_COMMAND', 'SERVICE_WORKER_PULL_COMMAND'];
    const names = new Set([
      ...ofPrograms,
      ...ofContainers,
      SCHEDULED_FOR,
      ARRAY_INDEX,
      ARRAY_SIZE,
      FILES_ROOT,
      ...ofConformanceKit,
    ]);
    assert.deepEqual(KNOWN_VARIABLES, [...names].toSorted());
  });
});
