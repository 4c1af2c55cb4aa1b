import { isDeepStrictEqual } from 'node:util';
import { isJsonObject } from '@longshore/common/json/json-value';
import {
  BEFORE_START,
  describeExchange,
  eventTypeOf,
  headerOf,
  kindOf,
  payloadOf,
  runOf,
  type Exchange,
} from './exchange.js';
import { REDIRECTED } from './fault-proxy.js';
import { check } from './scenario.js';

/** Tolerance of Retry-After, in milliseconds. */
const TOLERANCE_MS = 150;

export interface InvariantLimits {
  readonly workerTimeoutS: number;
  /** The worker may abort claims from here on, on the clock of `Exchange.atMs`. */
  readonly firstSignalMs: number;
}

/** Checks the rules that hold in every scenario. @throws RuleViolation with the first violation */
export function checkInvariants(exchanges: readonly Exchange[], limits: InvariantLimits): void {
  checkNoRedirects(exchanges);
  checkRegistered(exchanges);
  checkWaits(exchanges, limits);
  checkRetryAfter(exchanges);
  checkLogs(exchanges);
  checkSubmissions(exchanges);
}

function checkNoRedirects(exchanges: readonly Exchange[]): void {
  const followed = exchanges.some(({ path }) => path.startsWith(REDIRECTED));
  check(!followed, 'a redirect was followed: it may send the key to another server');
}

/** No claim before the worker's first heartbeat was answered. */
function checkRegistered(exchanges: readonly Exchange[]): void {
  const registered = exchanges.find(
    (asked) => kindOf(asked) === 'heartbeat' && asked.delivered && asked.answer?.status === 200,
  );
  const claim = exchanges.find((asked) => kindOf(asked) === 'claim');
  if (claim === undefined) return;
  const isEarly = claim.atMs < (registered?.doneAtMs ?? Number.POSITIVE_INFINITY);
  check(!isEarly, 'a claim was sent before the first heartbeat was answered');
}

/** A claim waits less than the worker timeout, and the worker waits at least as long as its claim. */
function checkWaits(
  exchanges: readonly Exchange[],
  { workerTimeoutS, firstSignalMs }: InvariantLimits,
): void {
  const refusedAtMs =
    exchanges.find(({ answer }) => answer?.status === 401)?.atMs ?? Number.POSITIVE_INFINITY;
  for (const asked of exchanges) {
    if (kindOf(asked) !== 'claim') continue;
    const waitS = Number(asked.query.get('wait') ?? 0);
    const isShort = waitS < workerTimeoutS;
    check(isShort, `a claim was to wait ${waitS} s, and the worker timeout is ${workerTimeoutS} s`);
    const { atMs, hungUpAtMs } = asked;
    if (hungUpAtMs === null || hungUpAtMs > Math.min(firstSignalMs, refusedAtMs)) continue;
    const heldS = (hungUpAtMs - atMs) / 1000;
    check(
      heldS > waitS,
      `a claim that was to wait ${waitS} s was broken off after ${heldS.toFixed(1)} s: its time limit is too short`,
    );
  }
}

/** The worker honours Retry-After. */
function checkRetryAfter(exchanges: readonly Exchange[]): void {
  for (const [index, asked] of exchanges.entries()) {
    const { answer, doneAtMs } = asked;
    if (!['claim', 'event'].includes(kindOf(asked))) continue;
    if (answer === null || doneAtMs === null || answer.retryAfterS === 0) continue;
    const next = exchanges.slice(index + 1).find((later) => isSameRequest(later, asked));
    if (next === undefined) continue;
    const pauseS = (next.atMs - doneAtMs) / 1000;
    check(
      pauseS * 1000 + TOLERANCE_MS >= answer.retryAfterS * 1000,
      `Retry-After ${answer.retryAfterS} was answered, and the request repeated after ${pauseS.toFixed(1)} s: ${describeExchange(asked)}`,
    );
  }
}

function isSameRequest(one: Exchange, other: Exchange): boolean {
  const [oneKey, otherKey] = [one, other].map((asked) => headerOf(asked, 'Idempotency-Key'));
  return one.path === other.path && oneKey === otherKey;
}

/** Log chunks are numbered from 0, carry both fencing headers, and are repeated unchanged until they are answered. */
function checkLogs(exchanges: readonly Exchange[]): void {
  const newest = new Map<string, { readonly chunk: Exchange; readonly number: number }>();
  for (const chunk of exchanges) {
    if (kindOf(chunk) !== 'log') continue;
    const attempt = headerOf(chunk, 'X-Run-Attempt');
    const from = headerOf(chunk, 'X-Worker-Id');
    check(
      attempt !== undefined && from !== undefined,
      'a chunk of a log was sent without X-Worker-Id and X-Run-Attempt',
    );
    const [, runId = '', , last = ''] = /^\/runs\/([^/]+)\/(logs)\/([^/]+)$/.exec(chunk.path) ?? [];
    const number = Number(last);
    const log = `${runId} ${attempt}`;
    const before = newest.get(log);
    newest.set(log, { chunk, number });
    if (before === undefined) {
      check(number === 0, `the first chunk of a log was sent as number ${last}, not 0`);
      continue;
    }
    const { status } = before.chunk.answer ?? {};
    const isTaken = before.chunk.delivered && status === 200;
    const expected = isTaken ? before.number + 1 : before.number;
    check(number === expected, `chunk ${expected} of a log should be sent, and ${last} was`);
    // A chunk that was too large may be split.
    const isRefused = before.chunk.delivered && isRefusal(before.chunk);
    if (isTaken || isRefused) continue;
    const isSame = isDeepStrictEqual(before.chunk.body, chunk.body);
    check(isSame, `chunk ${last} of a log, whose answer was lost, was sent again with other lines`);
  }
}

/** Whether the answer is a 4xx in the service's error form that a repetition would get again. */
function isRefusal({ answer }: Exchange): boolean {
  const { status = 0, body } = answer ?? {};
  const isFinal = status >= 400 && status < 500 && ![401, 403, 408, 425, 429].includes(status);
  return isFinal && isJsonObject(body) && typeof body['detail'] === 'string';
}

/** SUBMITTED names the one job of its attempt; it and PREPARING precede its STARTED. */
function checkSubmissions(exchanges: readonly Exchange[]): void {
  const jobs = new Map<string, string>();
  const started = new Set<string>();
  for (const report of exchanges) {
    const type = eventTypeOf(report);
    const attempt = `${runOf(report)} ${headerOf(report, 'X-Run-Attempt')}`;
    if (type === 'STARTED' && report.delivered && (report.answer?.status ?? 500) < 300) started.add(attempt);
    if (!BEFORE_START.includes(type ?? '')) continue;
    check(!started.has(attempt), `${type} was reported after STARTED of its attempt`);
    if (type !== 'SUBMITTED') continue;
    const id = textIn(report, 'engine_id');
    textIn(report, 'engine');
    if (Object.hasOwn(payloadOf(report), 'reason')) textIn(report, 'reason');
    const job = jobs.get(attempt) ?? id;
    check(job === id, `an attempt was submitted twice, as ${job} and as ${id}`);
    jobs.set(attempt, id);
  }
}

/** A text in the payload of a report. @throws RuleViolation when it is none, or empty */
function textIn(report: Exchange, field: string): string {
  const { [field]: value } = payloadOf(report);
  const isText = typeof value === 'string' && value !== '';
  check(isText, `the ${field} of ${eventTypeOf(report)} is ${JSON.stringify(value)}`);
  return value;
}
