import 'reflect-metadata';
import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { describe, it } from 'vitest';
import { parseEnv } from 'node:util';
import { loadSettings } from './settings.module.js';
import { SETTING_KEYS } from './settings.js';

function readExample(): string {
  let folder = import.meta.dirname;
  while (!existsSync(join(folder, '.env.example'))) {
    assert.notEqual(dirname(folder), folder, '.env.example is missing');
    folder = dirname(folder);
  }
  return readFileSync(join(folder, '.env.example'), 'utf8');
}

describe('the part of .env.example about the service', () => {
  const [text = ''] = readExample().split('# Settings of the worker');
  const example: NodeJS.ProcessEnv = { ...parseEnv(text.replaceAll(/^#(?=[A-Z_]+=)/gm, '')) };

  it('names the variables of the settings table, in its order and no others', () => {
    assert.deepEqual(
      [...text.matchAll(/^#?([A-Z_]+)=/gm)].map((match) => match[1]),
      SETTING_KEYS.map((key) => key.env),
    );
  });

  it('changes nothing when copied as it is', () => {
    assert.deepEqual({ ...parseEnv(text) }, {});
  });

  it('shows the defaults, and values that are allowed', () => {
    loadSettings([], example);
    for (const key of SETTING_KEYS) {
      if (key.default !== undefined) {
        assert.equal(example[key.env], key.default, key.env);
      }
    }
  });

  it('explains every variable in a comment right above it', () => {
    const lines = text.split('\n');
    for (const key of SETTING_KEYS) {
      const at = lines.findIndex((line) => line.startsWith(`#${key.env}=`));
      assert.match(lines[at - 1] ?? '', /^# [A-Z].{20,}/, key.env);
    }
  });
});
