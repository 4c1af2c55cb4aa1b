import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { KNOWN_VARIABLES } from '@longshore/common/settings/unknown-variables';
import { WORKER_SETTINGS } from '@longshore/worker/worker-settings';
import { SETTING_KEYS } from '../../src/config/settings.js';

describe('the known variables', () => {
  it('are those of the tables of settings, of containers and of the conformance kit', () => {
    const ofPrograms = [...SETTING_KEYS, ...WORKER_SETTINGS]
      .map(({ env }) => env)
      .filter((name) => name.startsWith('SERVICE_'));
    const ofContainers = ['SERVICE_INPUT_PATH', 'SERVICE_OUTPUT_PATH'];
    const ofConformanceKit = ['SERVICE_WORKER_COMMAND', 'SERVICE_WORKER_PULL_COMMAND'];
    const names = new Set([...ofPrograms, ...ofContainers, ...ofConformanceKit]);
    assert.deepEqual(KNOWN_VARIABLES, [...names].toSorted());
  });
});
