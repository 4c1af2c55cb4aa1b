import type { Server } from 'node:http';
import { Injectable, type OnModuleDestroy, type OnModuleInit } from '@nestjs/common';
import { HttpAdapterHost } from '@nestjs/core';
import { Drain } from '../../http/drain.js';
import { Settings } from '../../settings/settings.js';
import { ReaperGrace } from './reaper-grace.js';
import { Reaper } from './reaper.js';

/** Part of the interval by which a pass may come early, so that several processes do not fire together. */
const JITTER = 0.2;

/**
 * Runs the reaper from the moment on at which the server listens: every interval, never twice at once. It ends when the
 * server stops taking connections, for then workers cannot report here any more.
 */
@Injectable()
export class ReaperSchedule implements OnModuleInit, OnModuleDestroy {
  readonly #stop = new AbortController();
  #look: NodeJS.Timeout | undefined;
  #next: NodeJS.Timeout | undefined;
  #running: Promise<void> | undefined;

  constructor(
    private readonly host: HttpAdapterHost,
    private readonly drain: Drain,
    private readonly reaper: Reaper,
    private readonly grace: ReaperGrace,
    private readonly settings: Settings,
  ) {}

  /** Begins when the server does. */
  onModuleInit(): void {
    this.drain.signal.addEventListener('abort', () => this.#end(), { once: true });
    const server: Server = this.host.httpAdapter.getHttpServer();
    if (server.listening) this.#begin();
    else server.once('listening', () => this.#begin());
  }

  /** Lets a pass under way finish its batch; none begins any more. */
  async onModuleDestroy(): Promise<void> {
    this.#end();
    await this.#running;
  }

  #begin(): void {
    if (this.#stop.signal.aborted) return;
    this.grace.begin();
    this.#look = setInterval(() => this.grace.look(), this.grace.lookEveryMs);
    this.#pass();
  }

  #end(): void {
    this.#stop.abort();
    clearInterval(this.#look);
    clearTimeout(this.#next);
  }

  #pass(): void {
    this.#running = this.#passOnce();
  }

  async #passOnce(): Promise<void> {
    const began = performance.now();
    // It has told what is wrong; the next pass tries again.
    await this.reaper.runOnce(this.#stop.signal).catch(() => undefined);
    if (this.#stop.signal.aborted) return;
    const interval = this.settings.reaperInterval * 1000 * (1 - JITTER * Math.random());
    this.#next = setTimeout(() => this.#pass(), Math.max(0, began + interval - performance.now()));
  }
}
