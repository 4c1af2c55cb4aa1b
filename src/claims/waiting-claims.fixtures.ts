import type { ClaimablePart, CommitNotice } from '../database/notices/commit-notice.js';
import type { NoticeListener } from '../database/notices/commit-notices.js';
import { laneOf } from '../runs/queue/lane.js';
import { requirementIdOf } from '../runs/requirements.js';
import { DirectStrategy } from './strategies/direct.strategy.js';
import { FitStrategy } from './strategies/fit.strategy.js';
import { WaitingClaims } from './waiting-claims.js';
import type { WakeUp } from './waves.js';

export const LONG_MS = 60_000;

const nothing = (): undefined => undefined;
export const PLAIN = { requirementId: null, concurrencyKey: null, avoidedWorker: null };
export const GPU = {
  ...PLAIN,
  requirementId: requirementIdOf({ tags: ['gpu'], capabilities: [], gpuTags: [], gpus: null }),
};
export const ONE_GPU = { others: 1, lanes: { [laneOf(GPU)]: ['tag:gpu'] } };

const tick = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

/** Waiting claims with the notices that they get, and the names of the woken claims in order. */
export function setUp(strategy: 'direct' | 'fit' = 'direct') {
  let send: NoticeListener = nothing;
  let create: () => void = nothing;
  const claims = new WaitingClaims(
    {
      subscribe: (listener) => {
        send = listener;
        return () => undefined;
      },
      isListening: true,
    },
    {
      onCreate: (listener) => {
        create = listener;
        return () => undefined;
      },
      announceFreeWorkers: nothing,
    },
    strategy === 'direct' ? new DirectStrategy() : new FitStrategy(300),
    { onRelease: () => () => undefined, holdAll: false },
  );
  const woken: { name: string; wakeUp: WakeUp }[] = [];
  const ended: string[] = [];
  const wait = (
    name: string,
    since = claims.version,
    signal: AbortSignal = new AbortController().signal,
    has: readonly string[] | null = null,
  ): void => {
    const capacity = claims.listenForCapacity(name);
    const waiting = claims
      .wait(since, capacity, LONG_MS, signal, {
        id: name,
        offer: has === null ? null : { id: name, has: new Set(has), gpus: [] },
      })
      .finally(() => capacity?.close());
    void waiting.then((wakeUp) => (wakeUp ? woken.push({ name, wakeUp }) : ended.push(name)));
  };
  return {
    claims,
    woken,
    ended,
    wait,
    tick,
    names: () => woken.map(({ name }) => name),
    notify: (queue: ClaimablePart | null) => send(queue && { queue }),
    waitWith: (name: string, has: readonly string[]) => wait(name, undefined, undefined, has),
    send: (notice: CommitNotice | null) => send(notice),
    create: () => create(),
    /** Wakes every waiting claim, so that no timer is left. */
    close: () => {
      while (claims.size > 0) send(null);
    },
  };
}
