import assert from 'node:assert/strict';
import { describe, test } from 'vitest';
import { memberTexts, parseJson } from '@longshore/common/json/json-text';
import { isJsonObject, type JsonObject } from '@longshore/common/json/json-value';
import { appliedBy, bodyOf, changesOf, isApplied, isChanged, toApplied, type Stored } from './plan.js';
import type { Entry } from './read-entries.js';

const objectOf = (text: string): JsonObject => {
  const value = parseJson(text);
  assert.ok(isJsonObject(value));
  return value;
};
const entryOf = (text: string): Entry => {
  const body = objectOf(text);
  return {
    kind: 'schedule',
    key: 's',
    body,
    job: { value: body, file: 's.yaml', placeOf: () => 's.yaml:1' },
  };
};

/** A schedule as a service would answer it, with what is known of its application. */
const storedOf = (text: string, applied: Stored['shown']['applied'] = null): Stored => {
  const answer = {
    id: 's',
    overlap: 'skip',
    jitter_s: 0,
    paused: false,
    counts: {},
    ...objectOf(text),
    applied,
  };
  return { kind: 'schedule', key: 's', shown: answer };
};
/** The schedule as the set `prod` stored it from this file. */
const appliedFrom = (text: string): Stored => {
  const plain = storedOf(text);
  return storedOf(text, toApplied('prod', entryOf(text), plain, null));
};
const mineOf = (stored: Stored) => appliedBy('prod', stored);

/** What applying a file to a schedule means, without the defaults of the service. */
function planOf(file: string, stored: Stored) {
  const mine = mineOf(stored);
  const body = bodyOf(entryOf(file), stored, mine);
  const after = storedOf(`{${[...memberTexts(body)].map(([key, text]) => `"${key}": ${text}`).join()}}`);
  const shown = { ...after.shown, paused: Boolean(Reflect.get(stored.shown, 'paused')) };
  const changes = changesOf(stored, shown, mine);
  return changes.map(({ field, isConflict }) => (isConflict ? `${field}!` : field));
}

describe('what files change of a schedule', () => {
  const FILE = '{"cron": ["@daily"], "run": {"image": "i"}, "jitter_s": 5}';

  test('nothing, if the file is as it was applied', () => {
    const stored = appliedFrom(FILE);
    assert.deepEqual(planOf(FILE, stored), []);
    assert.equal(isApplied(entryOf(FILE), mineOf(stored) ?? assert.fail()), true);
  });

  test('nothing, if only the form of the JSON differs', () => {
    assert.deepEqual(
      planOf('{"jitter_s": 5.0, "run": {"image": "i"}, "cron": ["@daily"]}', appliedFrom(FILE)),
      [],
    );
  });

  test('what the file says differently, and what it does not give any more', () => {
    assert.deepEqual(planOf('{"cron": ["@hourly"], "run": {"image": "i"}}', appliedFrom(FILE)).toSorted(), [
      'cron',
      'jitter_s',
    ]);
  });

  test('not the fields that others have set and the file has never given', () => {
    const { applied } = appliedFrom(FILE).shown;
    const stored = storedOf(
      '{"cron": ["@daily"], "run": {"image": "i"}, "jitter_s": 5, "overlap": "allow"}',
      applied,
    );
    assert.deepEqual(planOf(FILE, stored), []);
    assert.deepEqual(planOf('{"cron": ["@hourly"], "run": {"image": "i"}, "jitter_s": 5}', stored), ['cron']);
  });

  test('as a conflict what others have changed and the file says differently, also a field that it begins to give', () => {
    const { applied } = appliedFrom(FILE).shown;
    const stored = storedOf(
      '{"cron": ["@weekly"], "run": {"image": "i"}, "jitter_s": 5, "overlap": "allow"}',
      applied,
    );
    assert.deepEqual(planOf(FILE, stored), ['cron!']);
    const more = '{"cron": ["@weekly"], "run": {"image": "j"}, "jitter_s": 6, "overlap": "queue_one"}';
    assert.deepEqual(planOf(more, stored).toSorted(), ['jitter_s', 'overlap!', 'run']);
  });

  test('a field that the file begins to give is no conflict while nobody has changed it', () => {
    assert.deepEqual(planOf(`${FILE.slice(0, -1)}, "overlap": "allow"}`, appliedFrom(FILE)), ['overlap']);
  });

  test('as conflicts all differences from what the set has not stored', () => {
    const stored = storedOf('{"cron": ["@daily"], "run": {"image": "j"}}', {
      set: 'other',
      given: [],
      fields: {},
    });
    assert.equal(mineOf(stored), null);
    assert.deepEqual(planOf('{"cron": ["@daily"], "run": {"image": "i"}}', stored), ['run!']);
  });

  test('cron expressions that the file replaces by a period are not kept', () => {
    const body = bodyOf(
      entryOf('{"every_s": 60, "run": {"image": "i"}}'),
      storedOf('{"cron": ["@daily"], "timezone": "UTC"}'),
      null,
    );
    assert.deepEqual([...memberTexts(body).keys()].toSorted(), ['every_s', 'jitter_s', 'overlap', 'run']);
  });

  test('a run that the file replaces by a group is not kept', () => {
    const file = entryOf('{"cron": ["@daily"], "group": {"runs": []}}');
    const body = bodyOf(file, storedOf('{"cron": ["@daily"], "run": {"image": "i"}}'), null);
    assert.deepEqual([...memberTexts(body).keys()].toSorted(), ['cron', 'group', 'jitter_s', 'overlap']);
  });
});

describe('whether others have changed what a set applied', () => {
  const FILE = '{"cron": ["@daily"], "run": {"image": "i"}}';
  const { applied } = appliedFrom(FILE).shown;

  test('every field counts, given or not', () => {
    for (const more of ['"jitter_s": 9', '"cron": ["@weekly"]', '"timeouts": {"attempt_s": 1}']) {
      const stored = storedOf(`{"cron": ["@daily"], "run": {"image": "i"}, ${more}}`, applied);
      assert.equal(isChanged(stored, mineOf(stored) ?? assert.fail()), true, more);
    }
  });

  test('a pause does not count unless the file says whether it is paused', () => {
    const stored = storedOf('{"cron": ["@daily"], "run": {"image": "i"}, "paused": true}', applied);
    assert.equal(isChanged(stored, mineOf(stored) ?? assert.fail()), false);
  });

  test('a change of a field that no file gave is remembered when another field is applied', () => {
    const changed = storedOf('{"cron": ["@daily"], "run": {"image": "i"}, "overlap": "allow"}', applied);
    const entry = entryOf('{"cron": ["@hourly"], "run": {"image": "i"}}');
    const after = storedOf('{"cron": ["@hourly"], "run": {"image": "i"}, "overlap": "allow"}');
    const again = storedOf(
      '{"cron": ["@hourly"], "run": {"image": "i"}, "overlap": "allow"}',
      toApplied('prod', entry, after, mineOf(changed)),
    );
    assert.deepEqual(planOf('{"cron": ["@hourly"], "run": {"image": "i"}, "overlap": "skip"}', again), [
      'overlap!',
    ]);
  });
});
