import { join } from 'node:path';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import { pathToFileURL } from 'node:url';
import { goalLine } from '../lib/pages/figures.mjs';
import { ROOT } from '../lib/root.mjs';
import { inTurn } from '../lib/rounds.mjs';

export const title = 'Masking of secrets';
export const about =
  'CPU of a worker for each byte of a log (from the bytes of a container to the requests that ship it) and of outputs (16 MB, from ' +
  'the bytes of the file to the body of the request), with secrets and texts that are made to be expensive. Each is compared ' +
  'with the same text of a run without secrets, measured directly before or after it. The delay is the longest for which timers, ' +
  'and so heartbeats, waited meanwhile.';

export const figures = {
  nsPerByte: { title: 'CPU a byte', unit: 'ns' },
  plainNs: { title: 'CPU a byte without secrets', unit: 'ns' },
  times: { title: 'times that without secrets', unit: '' },
  delayMs: { title: 'longest delay of timers', unit: 'ms' },
  plainDelayMs: { title: 'longest delay of timers without secrets', unit: 'ms' },
};

export const plots = [{ title: 'CPU of the worker for a byte, ns', figure: 'nsPerByte' }];

const MB = 1e6;
const LOG_BYTES = 8 * MB;
const OUTPUT_BYTES = 16 * MB;
const LINE = 64 * 1024;
const MOST_TIMES = 2;
const MOST_DELAY_MS = 1000;

const { RunLog } = await worker('logs/run-log');
const { RunOutputs, completedEvent } = await worker('execution/run-outputs');
const { splitLines } = await worker('runtime/log-lines');
const { NO_MASK, SecretMask } = await worker('secrets/secret-mask');
const { HttpServiceApi } = await worker('service-api/http-service-api');
const { SYSTEM_CLOCK } = await worker('process/clock');
const { createLongshoreClient } = await library('client/dist/client.js');
const { EXACT_JSON } = await library('common/dist/json/json-text.js');

const CASES = [
  { of: '64 KB of indented YAML, ordinary lines', values: [yamlOf('v', 64_000)], text: ordinary },
  { of: '64 KB of indented YAML, lines of blanks', values: [yamlOf('v', 64_000)], text: () => lines(' ') },
  {
    of: '100 variables of 64 KB, pieces of them',
    values: numbers(100).map((n) => yamlOf(`v${n}`, 64_000)),
    text: () => pieces(numbers(100).map((n) => yamlOf(`v${n}`, 64_000))),
  },
  {
    of: '1,000 equal beginnings, these beginnings',
    values: numbers(1000).map((n) => `${'a'.repeat(200)}${n}`),
    text: () => lines(`${'a'.repeat(201)}x`),
  },
  {
    of: '1,000 nested repeats, these repeats',
    values: numbers(1000).map((n) => `${'a'.repeat(n + 4)}b`),
    text: () => lines(`${'a'.repeat(1003)}c`),
  },
  { of: '64 KB of quotes, escapes', values: ['"\\'.repeat(32_000)], text: () => lines('\\"\\\\') },
  { of: 'a short value, this value', values: ['hunter22'], text: () => lines('hunter22 or ') },
];

/** One row for every case, of a log and of outputs. */
export async function measure() {
  const subjects = CASES.flatMap(({ of, values, text }) => {
    const mask = new SecretMask(values);
    const log = repeated(text(), LOG_BYTES);
    const outputs = Buffer.from(
      JSON.stringify({ lines: repeated(text(), OUTPUT_BYTES).toString().split('\n') }),
    );
    return [subject(`log, ${of}`, mask, log, readLog), subject(`outputs, ${of}`, mask, outputs, readOutputs)];
  });
  return inTurn(subjects);
}

/** @param rows as measured */
export function goals(rows) {
  return rows.flatMap(({ label, figures: { times, delayMs } }) => [
    goalLine(`${label}: CPU a byte, against no secrets`, times.median, { atMost: MOST_TIMES }, ' x'),
    ...(label.startsWith('outputs')
      ? [goalLine(`${label}: longest delay of timers`, delayMs.median, { atMost: MOST_DELAY_MS }, ' ms')]
      : []),
  ]);
}

function subject(label, mask, bytes, read) {
  const round = async () => {
    const plain = await metered(bytes, () => read(bytes, NO_MASK));
    const masked = await metered(bytes, () => read(bytes, mask));
    return {
      nsPerByte: masked.ns,
      plainNs: plain.ns,
      times: masked.ns / plain.ns,
      delayMs: masked.delayMs,
      plainDelayMs: plain.delayMs,
    };
  };
  return { label, round, warmUp: round };
}

async function metered(bytes, action) {
  const delay = monitorEventLoopDelay({ resolution: 5 });
  delay.enable();
  const before = process.cpuUsage();
  await sleep(20);
  await action();
  // A timer that the end of the action has delayed.
  await sleep(20);
  const { user, system } = process.cpuUsage(before);
  delay.disable();
  return { ns: ((user + system) * 1000) / bytes.length, delayMs: delay.max / 1e6 };
}

/** As a worker does: from the chunks of a pipe to the requests. */
async function readLog(bytes, mask) {
  const logger = { isLevelEnabled: () => false, debug() {}, info() {}, warn() {} };
  const context = { api: takingApi(), clock: SYSTEM_CLOCK, logger, random: Math.random, workerId: 'w' };
  const limits = { maxEvents: 1000, maxEventBytes: MB, eventRate: 100 };
  const log = new RunLog(context, { runId: 'r', logger }, limits);
  log.open(1, false);
  async function* chunks() {
    for (let at = 0; at < bytes.length; at += LINE)
      yield { stream: 'stdout', bytes: bytes.subarray(at, at + LINE) };
  }
  const sink = { sender: { push: async () => undefined }, mask, signal: new AbortController().signal };
  await log.read(splitLines(chunks()), sink);
  await log.finish(null);
  log.close();
}

async function readOutputs(bytes, mask) {
  const { outputs } = await new RunOutputs(() => null).read(bytes, mask);
  return EXACT_JSON.stringify(completedEvent(outputs));
}

/** A service that takes every chunk of a log. */
function takingApi() {
  return new HttpServiceApi(
    createLongshoreClient({ baseUrl: 'http://service', apiKey: 'key', fetch: takeChunk, json: EXACT_JSON }),
  );
}

async function takeChunk(request) {
  const { first_line: first, lines: taken } = await request.json();
  const chunk = Number(new URL(request.url).pathname.split('/').at(-1));
  return Response.json({ next_chunk: chunk + 1, next_line: first + taken.length });
}

function numbers(count) {
  return Array.from({ length: count }, (_, index) => index);
}

function yamlOf(value, length) {
  let text = '';
  for (let n = 0; text.length < length; n += 1)
    text += `${' '.repeat(n % 40)}key_${n}: "${value} ${(n * 7919).toString(36)}"\n`;
  return text.slice(0, length);
}

function ordinary() {
  return numbers(500)
    .map(
      (n) =>
        `2026-11-26T08:${n} INFO step ${n}: the key_${n} of the quick brown fox was set, ${n * 7} of 9000 done\n`,
    )
    .join('');
}

/** Lines of the longest length that is not split. */
function lines(text) {
  return `${text.repeat(Math.ceil(LINE / text.length)).slice(0, LINE - 1)}\n`;
}

/** Short pieces of texts, from everywhere in them. */
function pieces(texts) {
  return numbers(20_000)
    .map((n) =>
      texts[(n * 31) % texts.length]
        .slice((n * 7919) % 60_000)
        .slice(0, 12)
        .replaceAll('\n', ' '),
    )
    .join(' ')
    .replaceAll(/(.{120})/g, '$1\n');
}

function repeated(text, length) {
  const bytes = Buffer.from(text);
  return Buffer.concat(Array.from({ length: Math.ceil(length / bytes.length) }, () => bytes)).subarray(
    0,
    length,
  );
}

function worker(path) {
  return library(`worker/dist/${path}.js`);
}

function library(path) {
  return import(pathToFileURL(join(ROOT, 'packages', path)).href);
}
