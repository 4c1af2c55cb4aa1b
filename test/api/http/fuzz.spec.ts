import assert from 'node:assert/strict';
import { beforeAll, describe, test } from 'vitest';
import * as fc from 'fast-check';
import { rows } from '../../../src/database/sql/sql.js';
import {
  ApiDescription,
  readApiDocument,
  type AnswerParts,
  type Operation,
} from '../../support/fuzz/api-document.js';
import { Draw } from '../../support/fuzz/draw.js';
import { KnownThings } from '../../support/fuzz/known-things.js';
import { drawRequest, type DrawnRequest } from '../../support/fuzz/request-draw.js';
import type { TestApp } from '../../support/app/test-app.js';
import { atDepth, testSeed } from '../../support/depth.js';
import { useTestApp } from '../../support/app/use-test-app.js';

const SEED = testSeed(20_260_314);
const REQUESTS = atDepth({ fast: 150, all: 5000, soak: 10_000 });
/** Every so many-th request is watched for what it changes. */
const WATCHED = 6;

/** The only body that may hold fields which the description does not know. */
const LENIENT = new Set(['sendHeartbeat']);

/** Whose items are taken or refused one by one, in an answer of 200. */
const BULK: ReadonlySet<string> = new Set(['createRuns', 'reportEvents', 'cancelRuns', 'retryRuns']);

/** Files in and out, names of environment variables, keys of labels, paths and contents of files, mounts, members of constraints beside each other, how far ahead a start may lie, ranges of exit codes, and growth. */
const RUN_OPTIONS =
  /^(?:runs\[\d+\]\.)?(?:env\b|artifacts\b|inputs: |outputs: \$artifact|depends_on\b|inputs\..*\$from|secrets\b|labels\b|files(?:\.[\w-]+|\[.*\])?(?:\.content|\.env)? must |mounts\[\d+\](?:\.path|\.sub_path)?(?: must |: )|image must be without |constraints\.(?:cpu|cpu_limit_millis|shm_mb) must be |start_at must |retry_policy\.(?:retry_on|grow)\b)/;

/** Times, which end after they start, and what of a run a schedule refuses. */
const SCHEDULE = /^(?:applied|labels|cron|every_s|offset_s|timezone|starts_at|ends_at|from|run)\b/;

/** What a group is made of, and what of a run it refuses. */
const GROUP =
  /^(?:exactly one of runs and array |runs\[|array\b|depends_on\b|max_failed must |inputs\.|labels\b)/;

/** Addresses of endpoints, and lists without repetition. */
const WEBHOOK = /^(?:url|events|include|where)\b/;

/** Rules about fields that no schema says, as the service words them. */
const RULES_BEYOND_SCHEMAS: Readonly<Record<string, RegExp>> = {
  createRun: RUN_OPTIONS,
  createRuns: RUN_OPTIONS,
  createDefinitionRun: new RegExp(`${RUN_OPTIONS.source}|^event_delivery.attributes must be absent `),
  labelRun: RUN_OPTIONS,
  upsertDefinition: new RegExp(
    `${RUN_OPTIONS.source}|^input_specs.*\\.default must be |^applied\\b|^(?:command|args)\\[.*: no such input$`,
  ),
  createBulkOperation: /^(?:filter has no condition|value\b)/,
  sendHeartbeat: /^resources\.gpus\[\d+\]\.id must not repeat /,
  putPause: /^(?:where must |where\.all must |until must )/,
  createGroup: GROUP,
  putSchedule: SCHEDULE,
  previewSchedule: SCHEDULE,
  createWebhook: WEBHOOK,
  updateWebhook: WEBHOOK,
  replayWebhook: /^until must /,
  putSecret: /^(?:value(?:_base64)?[ .]|either value or )/,
  createApiKey: /^(?:expires_at must |worker_(?:ids|tags|capabilities) must be given with |stores: )/,
  updateApiKey: /^stores: /,
  createFile: /^bytes must be at most /,
  listGroups: /^after must be the id of a group$/,
  readFeed: /^$/,
  putLogChunk: /^lines must not be empty unless /,
  readRunLog:
    /^(?:tail|before|after) must not be given together with (?:tail|before|after)(?: and (?:tail|before|after))?$/,
};

const TELLTALE = /\.[jt]s:\d|node_modules|select |insert into|violates|relation "|SQLSTATE|\n\s+at /i;

describe('requests drawn from the API description', () => {
  const service = useTestApp();
  let api: ApiDescription;

  beforeAll(() => {
    api = new ApiDescription(readApiDocument());
  });

  test(`${REQUESTS} of them, seed ${SEED}: each is answered as the description says`, async (t) => {
    const known = new KnownThings();
    const files = await rows<{ id: string }>(
      service.dataSource,
      `insert into files (id, name, bytes, state, created_by, created_by_name, created_at, last_used_at)
       select gen_random_uuid(), 'f', 1, 'stored', gen_random_uuid(), 'k', now(), now() from generate_series(1, 20)
       returning id`,
    );
    for (const file of files) known.learn('/files/{id}', file);
    const weighted = api.operations.flatMap((operation) =>
      Array.from({ length: weightOf(operation) }, () => operation),
    );
    const tally = new Map<string, number>();
    let sent = 0;
    await fc.assert(
      fc.asyncProperty(fc.gen(), async (generator) => {
        const draw = new Draw(generator);
        const operation = draw.pick(weighted);
        assert.ok(operation);
        const request = drawRequest(api, operation, draw, known);
        sent += 1;
        const isWatched = sent % WATCHED === 0 && !(await isTimeoutNear(service));
        const untouched = isWatched ? await snapshot(service) : undefined;
        const answer = await send(service.url, request);
        try {
          check(api, request, answer);
          if (untouched !== undefined && answer.status >= 400) {
            assert.deepEqual(await snapshot(service), untouched, 'a refused request changes nothing');
          }
        } catch (error) {
          throw new Error(describeRequest(request, answer), { cause: error });
        }
        if (answer.status < 300) known.learn(operation.path, answer.body);
        const kind = `${operation.id} ${answer.status}`;
        tally.set(kind, (tally.get(kind) ?? 0) + 1);
      }),
      // Requests depend on those before them, so a failing case cannot be made smaller on its own.
      { seed: SEED, numRuns: REQUESTS, endOnFailure: true },
    );
    const counts = [...tally].map(([kind, n]) => `${kind}: ${n}`).toSorted();
    await t.annotate(`seed ${SEED}; ${counts.join(', ')}`);
    for (const { id, responses } of api.operations) {
      const success = Object.keys(responses).filter((status) => status.startsWith('2'));
      assert.ok(
        REQUESTS < 1000 || success.some((status) => tally.has(`${id} ${status}`)),
        `${id} was carried out at least once`,
      );
    }
  });
});

/** What says more can go wrong in more ways; what requires headers that name a held run seldom succeeds. */
function weightOf({ body, parameters }: Operation): number {
  if (parameters.some(({ in: place, required }) => place === 'header' && required === true)) return 8;
  if (body) return 4;
  return parameters.length > 0 ? 2 : 1;
}

/** Whether the service itself is about to change a run, because a timeout or a back-off ends, a bulk operation is under way, or a pause begins or ends. */
async function isTimeoutNear({ dataSource }: TestApp): Promise<boolean> {
  const [near] = await rows<{ isNear: boolean }>(
    dataSource,
    `select exists (
       select from run_timers where due_at < clock_timestamp() + interval '2 seconds'
     ) or exists (
       select from bulk_operations where state = 'running'
     ) or exists (
       select from pauses where not is_applied or until_at < clock_timestamp() + interval '2 seconds'
     ) as "isNear"`,
  );
  return near?.isNear ?? false;
}

/** @throws AssertionError when the answer is not what the description and the request ask for */
function check(api: ApiDescription, request: DrawnRequest, answer: AnswerParts): void {
  const { operation, flaw } = request;
  const { status, body, text, headers } = answer;
  assert.ok(status < 500, `no ${status}`);
  // `..` in a path leads to another operation.
  if (new URL(request.target, 'http://service').pathname !== request.target.split('?', 1)[0]) return;
  // A path that is spoiled may name no operation at all.
  if (status === 404 && Object(body).detail === 'Not found') assertErrorShape(answer);
  else api.check(operation, answer);
  assert.equal(headers.get('x-powered-by'), null);
  if (status >= 400) assertErrorShape(answer);
  if (flaw && flaw.refusedWith.length > 0)
    assert.ok(flaw.refusedWith.includes(status), `${flaw.name}: ${status}`);
  const refusals = BULK.has(operation.id) && status < 300 ? refusalsOf(body) : [Object(body)];
  if (flaw === undefined) {
    for (const { detail, errors = [] } of refusals) assertNoFieldRefused(operation.id, detail, errors);
  }
  const isTaken = status < 300 && !(BULK.has(operation.id) && refusals.length > 0);
  if (operation.body && isTaken) {
    assert.ok(
      api.takesBody(operation, request.value, LENIENT.has(operation.id)),
      `the description does not allow this body, which was taken: ${text.slice(0, 200)}`,
    );
  }
}

function assertErrorShape({ headers, body, text }: AnswerParts): void {
  assert.match(headers.get('content-type') ?? '', /^application\/json\b/);
  const { detail, errors, ...others } = Object(body);
  assert.ok(typeof detail === 'string' && detail !== '', `detail is a text: ${text}`);
  assert.deepEqual(others, {}, 'nothing but detail and errors');
  if (errors !== undefined) {
    assert.ok(Array.isArray(errors) && errors.length > 0 && errors.every((line) => typeof line === 'string'));
  }
  assert.doesNotMatch(text, TELLTALE);
}

/** What the items of a bulk request were refused with. */
function refusalsOf(body: unknown): { readonly detail?: unknown; readonly errors?: readonly unknown[] }[] {
  const results: readonly unknown[] = Object(body).results;
  return results.flatMap((result) => Object(result).error ?? []);
}

/** A request that the description allows is not refused for its fields, but by rules that no schema says. */
function assertNoFieldRefused(id: string, detail: unknown, lines: readonly unknown[]): void {
  if (typeof detail !== 'string' || !/^(?:Request validation failed|Malformed)/.test(detail)) return;
  const rule = RULES_BEYOND_SCHEMAS[id];
  const others = lines.filter((line) => rule?.test(String(line)) !== true);
  assert.deepEqual(others, [], `${detail}, although the description allows the request`);
}

async function send(baseUrl: string, request: DrawnRequest): Promise<AnswerParts> {
  const { operation, target, headers, body } = request;
  const stop = new AbortController();
  const response = await fetch(baseUrl + target, {
    method: operation.method,
    headers,
    signal: stop.signal,
    ...(body === undefined ? {} : { body }),
  });
  const { status } = response;
  if (response.headers.get('content-type')?.startsWith('text/event-stream') === true) {
    // A stream does not end by itself.
    stop.abort();
    return { status, headers: response.headers, text: ' ', body: undefined };
  }
  const text = await response.text();
  let parsed: unknown;
  try {
    parsed = JSON.parse(text);
  } catch {
    // Not JSON: the content type will tell.
  }
  return { status, headers: response.headers, text, body: parsed };
}

/** Sizes and checksums of all tables, and the pool of workers. */
async function snapshot(service: TestApp): Promise<unknown> {
  const tables = await rows<{ name: string }>(
    service.dataSource,
    `select table_name as name from information_schema.tables where table_schema = 'public' order by 1`,
  );
  const parts = tables.map(
    ({ name }) =>
      `select '${name}' as name, count(*), sum(hashtextextended(t::text, 0)) as checksum from ${name} t`,
  );
  return [
    await rows(service.dataSource, parts.join(' union all ')),
    (await service.send('GET', '/workers')).body,
  ];
}

function describeRequest(
  { operation, target, headers, body, flaw }: DrawnRequest,
  answer: AnswerParts,
): string {
  const sent = body === undefined ? '' : body.toString().slice(0, 1000);
  const flawed = flaw === undefined ? 'as described' : flaw.name;
  return [
    `${operation.id} (${flawed}): ${operation.method} ${target.slice(0, 500)} ${JSON.stringify(headers)} ${sent}`,
    `answered ${answer.status} ${answer.text.slice(0, 500)}`,
  ].join('\n');
}
