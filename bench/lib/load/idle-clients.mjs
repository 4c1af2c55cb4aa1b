import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { openStreams } from './event-streams.mjs';
import { bodyOf, sender } from './http.mjs';
import { heartbeatOf } from './scenarios.mjs';

const TOPICS = 50;
const CLAIM_WAIT_S = 20;
const POLL_WAIT_S = 30;

const WARM_UP_WAIT_S = 3;

/** The clients start to wait within this time, so that not all connections are opened at once. */
const START_MS = 10_000;

/** Connections beyond one for each waiting request. */
const SPARE_CONNECTIONS = 64;

/** Workers, feed readers and event streams that wait for something to happen. */
export class IdleClients {
  #counts;
  #key;
  #sender;
  #streams = [];
  #url;
  /** Waits of claims and polls in seconds; null: the usual ones. */
  #waitS = WARM_UP_WAIT_S;
  #isOver = false;
  #requests = 0;
  #timer;

  /** @param counts numbers of `workers`, `polls` and `streams` */
  constructor(url, key, counts) {
    this.#url = url;
    this.#key = key;
    this.#counts = counts;
    this.#sender = sender(url, key, counts.workers + counts.polls + SPARE_CONNECTIONS);
  }

  /** Requests that were answered so far. */
  get requests() {
    return this.#requests;
  }

  /** Registers the workers, opens the streams, and begins claims and polls that wait three seconds and repeat. */
  async open() {
    const { workers, polls, streams } = this.#counts;
    for (let n = 0; n < workers; n += SPARE_CONNECTIONS) {
      const group = Array.from({ length: Math.min(SPARE_CONNECTIONS, workers - n) }, (_, k) => n + k);
      await Promise.all(group.map((k) => this.#heartbeat(k)));
    }
    for (let n = 0; n < streams; n += SPARE_CONNECTIONS) {
      const count = Math.min(SPARE_CONNECTIONS, streams - n);
      const topics = Array.from({ length: count }, (_, k) => `topic-${(n + k) % TOPICS}`);
      this.#streams.push(await openStreams(this.#url, this.#key, topics));
    }
    for (let n = 0; n < workers; n += 1) void this.#repeat(() => this.#claim(n), CLAIM_WAIT_S, n / workers);
    for (let n = 0; n < polls; n += 1) void this.#repeat(() => this.#poll(n), POLL_WAIT_S, n / polls);
  }

  /** Resolves when all claims and polls wait for their usual time, spread evenly over it. */
  async settle() {
    this.#waitS = null;
    await sleep((POLL_WAIT_S + 2) * 1000);
  }

  /** Sends a heartbeat of each worker at the interval, spread evenly. @returns how to end that */
  heartbeat(everyMs) {
    const { workers } = this.#counts;
    const startedAt = performance.now();
    let sent = 0;
    this.#timer = setInterval(() => {
      const due = ((performance.now() - startedAt) * workers) / everyMs;
      for (; sent < due; sent += 1) void this.#heartbeat(sent % workers).catch(() => undefined);
    }, 1);
    return () => clearInterval(this.#timer);
  }

  close() {
    this.#isOver = true;
    clearInterval(this.#timer);
    for (const group of this.#streams) group.close();
    this.#sender.close();
  }

  async #repeat(ask, usualS, part) {
    await sleep(part * START_MS);
    let isUsual = false;
    while (!this.#isOver) {
      if (!isUsual && this.#waitS === null) {
        isUsual = true;
        await sleep(part * (usualS - WARM_UP_WAIT_S) * 1000);
      }
      try {
        await ask();
        this.#requests += 1;
      } catch (error) {
        if (this.#isOver) return;
        // During the warm-up the server may refuse connections: thousands are opened within seconds.
        if (this.#waitS === null) throw error;
        await sleep(1_000);
      }
    }
  }

  async #claim(n) {
    const path = `/workers/worker-${n}/claim?wait=${this.#waitS ?? CLAIM_WAIT_S}`;
    const headers = { 'Idempotency-Key': randomUUID() };
    const { ops } = bodyOf(await this.#sender.send('POST', path, undefined, headers));
    if (ops.length > 0) throw new Error('a claim got a run although there is none');
  }

  async #poll(n) {
    const path = `/feed?topic=topic-${n % TOPICS}&wait=${this.#waitS ?? POLL_WAIT_S}`;
    bodyOf(await this.#sender.send('GET', path));
  }

  async #heartbeat(n) {
    bodyOf(await this.#sender.send('POST', '/workers/heartbeat', heartbeatOf(`worker-${n}`)));
    this.#requests += 1;
  }
}
