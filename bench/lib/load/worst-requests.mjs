// Requests that are made to take a server long: for each route of the API description, and for what the description does not tell.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { ROOT } from '../root.mjs';

/** Bytes of the hostile part of a body: with the rest it stays below the default of SERVICE_MAX_BODY_BYTES. */
const BYTES = 1_000_000;

/** Characters of a hostile part of a head: it stays below the limit of 16 KiB. */
const HEAD = 14_000;

/** Values that cost a reader the most for each byte, as JSON. */
const VALUES = Object.entries({
  'a text': () => JSON.stringify('a'.repeat(BYTES)),
  'a text of blanks': () => JSON.stringify(`${' '.repeat(BYTES)}!`),
  'a text of slashes': () => JSON.stringify(`/${'a/'.repeat(BYTES / 2 - 2)}`),
  'a text of digits': () => JSON.stringify(`${'0'.repeat(BYTES)}x`),
  'a text of references': () => JSON.stringify('${run.id}'.repeat(BYTES / 9)),
  'a text of open references': () => JSON.stringify('${'.repeat(BYTES / 2)),
  'a text of escapes': () => `"${'\\u2028'.repeat(BYTES / 6)}"`,
  'a text of emoji': () => JSON.stringify('😀'.repeat(BYTES / 4)),
  'a number': () => `1${'0'.repeat(BYTES)}1`,
  'a number with a fraction': () => `0.${'0'.repeat(BYTES)}1e-5`,
  'a list of numbers': () => list(BYTES / 2, '0'),
  'a list of inexact numbers': () => list(BYTES / 4, '1.0'),
  'a list of texts': () => list(BYTES / 4, '"a"'),
  'a list of objects': () => list(BYTES / 3, '{}'),
  'a list of deep lists': () => list(BYTES / 101, `${'['.repeat(50)}${']'.repeat(50)}`),
  'a deep list that is wide': () => `${'[0,'.repeat(50)}${list(BYTES / 4, '1.0')}${']'.repeat(50)}`,
  'an object': () => object(BYTES / 12, (n) => `"k${n}":0`),
  'an object with ordered keys': () => object(BYTES / 12, (n) => `"${999_999 - n}":0`),
  'an object of texts': () => object(BYTES / 14, (n) => `"k${n}":"v"`),
  'an object of null': () => object(BYTES / 15, (n) => `"k${n}":null`),
  'an object with escaped keys': () => object(BYTES / 17, (n) => `"\\u006b${n}":0`),
  'a chain of objects': () => list(BYTES / 350, `${'{"k":'.repeat(50)}1.0${'}'.repeat(50)}`),
}).map(([title, make]) => ({ title, text: make() }));

/** What a query, a part of a path or a header may hold. */
const TEXTS = Object.entries({
  letters: 'a'.repeat(HEAD),
  blanks: `${'%20'.repeat(HEAD / 3 - 3)}!`,
  commas: ','.repeat(HEAD),
  'characters of four bytes': '%F0%9F%98%80'.repeat(HEAD / 12),
  slashes: 'a%2F'.repeat(HEAD / 4 - 1),
  base64: 'AAAA'.repeat(HEAD / 4),
  'equal signs': `a${'='.repeat(HEAD)}`,
});

/** Headers that are read with more than a comparison. */
const HEADERS = {
  Prefer: `${'return ;,'.repeat(HEAD / 9)}x`,
  'Idempotency-Key': 'k'.repeat(255),
  'If-None-Match': `${'W/"a", '.repeat(HEAD / 7)}x`,
  'Content-Type': `application/json; ${'a=b; '.repeat(HEAD / 5 - 5)}!`,
  traceparent: '0'.repeat(HEAD),
  tracestate: 'a=b,'.repeat(HEAD / 4 - 1),
  'X-Request-Id': 'a'.repeat(HEAD),
  'X-Worker-Id': 'a'.repeat(HEAD),
  'X-Run-Attempt': '9'.repeat(HEAD),
  Authorization: `Bearer ${' '.repeat(HEAD)}`,
};

/** A long query of many parameters. */
const MANY_PARAMETERS = Array.from({ length: 2000 }, (_, n) => `a${n}=1`).join('&');
const MANY_LABELS = Array.from(
  { length: 100 },
  (_, n) => `label=${'l'.repeat(60)}${n}%3D${'v'.repeat(60)}`,
).join('&');

/**
 * The worst requests of every route of `openapi.json`: each example of its body with one member in turn replaced by each hostile value,
 * and hostile queries, paths and headers.
 * @param values for the parameters of paths, by name: what exists
 * @param titles of the values that are put into bodies; all of {@link VALUES} unless given
 * @returns a generator of `{ title, method, path, headers, body }`
 */
export function* worstOfRoutes(values, titles = null) {
  const document = JSON.parse(readFileSync(join(ROOT, 'openapi.json'), 'utf8'));
  for (const [template, methods] of Object.entries(document.paths)) {
    for (const [name, operation] of Object.entries(methods)) {
      const method = name.toUpperCase();
      const path = template.replaceAll(/\{(\w+)\}/g, (_, parameter) => values[parameter] ?? '0');
      const request = (title, more) => ({
        title: `${method} ${template}, ${title}`,
        method,
        path,
        headers: {},
        ...more,
      });
      const { examples } = operation.requestBody?.content['application/json'] ?? {};
      const body = examples && JSON.stringify(Object.values(examples)[0].value);
      for (const place of placesOf(Object.values(examples ?? {}))) {
        for (const { title, text } of VALUES) {
          if (titles !== null && !titles.includes(title)) continue;
          yield request(`${title} as ${place.name}`, { body: place.with(text) });
        }
      }
      const parameters = (operation.parameters ?? []).map(({ $ref, ...given }) =>
        $ref ? document.components.parameters[$ref.split('/').at(-1)] : given,
      );
      const queries = parameters
        .filter((parameter) => parameter.in === 'query')
        .map((parameter) => parameter.name);
      for (const query of queries) {
        for (const [title, text] of TEXTS) {
          yield request(`${title} as ${query}`, { path: `${path}?${query}=${text}`, body });
        }
      }
      yield request('many parameters', { path: `${path}?${MANY_PARAMETERS}`, body });
      yield request('many labels', { path: `${path}?${MANY_LABELS}`, body });
      for (const parameter of template.matchAll(/\{(\w+)\}/g)) {
        for (const [title, text] of TEXTS) {
          yield request(`${title} in the path`, { path: template.replaceAll(parameter[0], text), body });
        }
      }
      for (const [header, text] of Object.entries(HEADERS)) {
        yield request(`the header ${header}`, { headers: { [header]: text }, body });
      }
    }
  }
}

/** The body that is taken as the unit: {@link JSON.parse} reads it slower than most of its size. */
export const UNIT = `{"inputs":${list(BYTES / 3, '{}')}}`;

/**
 * Requests that hold a server although each member of their bodies is allowed, in the order in which they are to be sent.
 * @param values as for {@link worstOfRoutes}: `id` of a run that the worker `worker_id` holds
 */
export function* worstOfFeatures({ id, worker_id: worker }) {
  for (const [count, name] of [
    [372, 'many'],
    [10, 'some'],
  ]) {
    const args = Array.from({ length: 100 }, () => '${inputs.x}'.repeat(count));
    const definition = {
      id: name,
      version: '1',
      image: 'i',
      args,
      input_specs: { x: { type: 'label:any' } },
    };
    const runs = `/definitions/${name}/runs?dry_run=true`;
    yield post(`a definition with ${count} references in a word`, '/definitions', definition);
    yield post(`a run of it with a long text, ${count}`, runs, { inputs: { x: 'a'.repeat(900_000) } });
    yield post(`a run of it with a long list, ${count}`, runs, `{"inputs":{"x":${list(BYTES / 4, '1.0')}}}`);
  }
  const flags = Array.from({ length: 100 }, () => ({ flag: '-f', input: 'x' }));
  yield post('a definition with 100 flags', '/definitions', {
    id: 'flags',
    version: '1',
    image: 'i',
    args: flags,
    input_specs: { x: { type: 'array' } },
  });
  yield post(
    'a run of it with a long list',
    '/definitions/flags/runs?dry_run=true',
    `{"inputs":{"x":${list(BYTES / 4, '1.0')}}}`,
  );
  yield post('a definition with 1,000 inputs of 100 values', '/definitions', {
    id: 'specs',
    version: '1',
    image: 'i',
    input_specs: Object.fromEntries(
      texts(1000, 8).map((name) => [
        name,
        { type: 'integer', enum: Array.from({ length: 100 }, (_, n) => n) },
      ]),
    ),
  });
  yield post('a command line of `env -S`', '/definitions', {
    id: 'split',
    version: '1',
    image: 'i',
    command: ['env', ...Array.from({ length: 98 }, () => '-S env '.repeat(500)), '${inputs.x}'],
    input_specs: { x: { type: 'string' } },
  });
  const gpus = Array.from({ length: 64 }, (_, n) => ({ id: n, vram_mb: 1, tags: texts(100, 128) }));
  const resources = { cpu_cores: 1, ram_mb: 1, gpus: [] };
  const beat = { worker_id: worker, resources, tags: [], running_ops: [] };
  yield post('a heartbeat with 1,000 capabilities of 128 characters', '/workers/heartbeat', {
    ...beat,
    capabilities: texts(1000, 128),
  });
  yield post('a heartbeat with 64 GPUs of 100 tags', '/workers/heartbeat', {
    ...beat,
    resources: { ...resources, gpus },
  });
  const operations = texts(1000, 128).map((run) => ({
    id: run,
    image: 'i',
    inputs: { a: 'a'.repeat(500) },
    constraints: {},
  }));
  yield post('a heartbeat with 1,000 runs', '/workers/heartbeat', { ...beat, running_ops: operations });
  const log = texts(5000, 90).map((text) => ({ t: '2026-01-02T03:04:05.678Z', stream: 'stdout', text }));
  yield {
    title: 'a chunk of 5,000 log lines',
    method: 'PUT',
    path: `/runs/${id}/logs/0`,
    headers: { 'X-Worker-Id': worker, 'X-Run-Attempt': '1' },
    body: JSON.stringify({ first_line: 0, lines: log }),
  };
  yield read('a search in the log', `/runs/${id}/logs?contains=${'x'.repeat(80)}y&limit=5000`);
  yield read('a page of the log', `/runs/${id}/logs?limit=5000`);
  const inexact = list(BYTES / 400, '1.0');
  const runs = Array.from({ length: 100 }, () => `{"image":"i","inputs":{"x":${inexact}}}`).join(',');
  yield post('100 runs', '/runs/batch', `{"runs":[${runs}]}`, { 'Idempotency-Key': 'batch' });
  yield post('100 runs again', '/runs/batch', `{"runs":[${runs}]}`, { 'Idempotency-Key': 'batch' });
  const events = Array.from(
    { length: 100 },
    () => `{"run_id":"${id}","attempt":1,"type":"NOTE","msg":"","payload":{"x":${inexact}}}`,
  );
  yield post('100 events', `/workers/${worker}/events`, `{"events":[${events.join(',')}]}`, {
    'Idempotency-Key': 'events',
  });
  for (const { title, text } of VALUES) {
    for (const time of ['', ' again']) {
      yield post(
        `a run with an idempotency key and ${title}${time}`,
        '/runs',
        `{"image":"i","event_delivery":{"topic":"t"},"inputs":{"x":${text}}}`,
        {
          'Idempotency-Key': `run-${title.replaceAll(' ', '-')}`,
        },
      );
    }
  }
  yield read('a list of them', '/runs?limit=100');
  yield read('a page of their feed', '/feed?topic=t&limit=1000');
  yield post('a filter of 100 labels', '/bulk-operations', {
    action: 'cancel',
    dry_run: true,
    filter: { label: texts(100, 63) },
  });
}

/** Every member of the examples, once: its name, and an example in which it has another value. */
function placesOf(examples) {
  const places = new Map();
  const marker = '\u0001';
  const visit = (value, path, put) => {
    const name = path.join('.').replaceAll(/\.\d+/g, '[]');
    if (path.length > 0 && !places.has(name)) {
      const around = JSON.stringify(put(marker)).split(JSON.stringify(marker));
      places.set(name, { name, with: (text) => around.join(text) });
    }
    if (typeof value !== 'object' || value === null) return;
    for (const [key, member] of Object.entries(value)) {
      visit(member, [...path, key], (other) =>
        put(Array.isArray(value) ? value.with(Number(key), other) : { ...value, [key]: other }),
      );
    }
  };
  for (const { value } of examples) visit(value, [], (other) => other);
  return [...places.values()];
}

function list(length, item) {
  return `[${`${item},`.repeat(length)}${item}]`;
}

function object(length, member) {
  return `{${Array.from({ length }, (_, n) => member(n)).join(',')}}`;
}

function post(title, path, body, headers = {}) {
  return {
    title,
    method: 'POST',
    path,
    headers,
    body: typeof body === 'string' ? body : JSON.stringify(body),
  };
}

function read(title, path) {
  return { title, method: 'GET', path, headers: {}, body: undefined };
}

/** Different texts of one length. */
function texts(count, length) {
  return Array.from({ length: count }, (_, n) => `${n}`.padEnd(length, 'x'));
}
