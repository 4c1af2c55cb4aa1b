import assert from 'node:assert/strict';
import { IdealService } from './ideal-service.js';
import { runOf, storyOf, type Story } from './spoil.js';

/**
 * Run 'failing' fails, is retried with more RAM, and completes; run 'lost' is reclaimed and cancelled; both name the topic t. Then 'first'
 * and 'second' of one key, which lets one run execute, on a worker with the tag that they need. 'first' fails for good, which cancels
 * 'cancelled'; 'waiting' starts when 'second' has completed.
 */
export function scene(): {
  story: Story;
  failing: string;
  lost: string;
  note: string;
  started: string;
  first: string;
  second: string;
  cancelled: string;
  waiting: string;
} {
  const service = new IdealService();
  const growth = { ramMb: 300, factor: 2, max: 500, on: ['error'] };
  const failing = service.create({ topic: 't', maxAttempts: 2, growth });
  const lost = service.create({ topic: 't' });
  service.claim('w1');
  service.report('w1', failing, 1, 'STARTED');
  const note = service.note(failing);
  service.read(failing);
  service.report('w1', failing, 1, 'FAILED');
  service.patch(failing);
  service.claim('w2');
  const started = service.report('w2', failing, 2, 'STARTED');
  service.report('w1', failing, 1, 'COMPLETED');
  service.report('w2', failing, 2, 'COMPLETED');
  service.claim('w1');
  service.heartbeat('w1', [lost]);
  service.pass(11_000);
  service.reclaim(lost);
  service.note(lost, { kind: 'maybe' });
  service.cancel(lost);
  const options = { concurrency: { key: 'k', limit: 1 }, selector: ['gpu'], startAt: service.now } as const;
  const first = service.create({ ...options, maxAttempts: 2, retryOn: ['oom'] });
  const second = service.create(options);
  const cancelled = service.create({}, [{ run: first, when: 'completed' }]);
  const waiting = service.create({}, [
    { run: first, when: 'ended' },
    { run: second, when: 'completed' },
  ]);
  service.claim('w3', ['gpu']);
  service.report('w3', first, 1, 'FAILED', 'exit');
  service.claim('w3', ['gpu']);
  service.report('w3', second, 1, 'COMPLETED');
  service.claim('w3');
  service.report('w3', waiting, 1, 'COMPLETED');
  return { story: storyOf(service), failing, lost, note, started, first, second, cancelled, waiting };
}

/** What it answers. */
export type Scene = ReturnType<typeof scene>;

/** Heartbeats of w1 every two seconds, up to the moment at which it lost the run. */
export function addHeartbeats(
  story: Story,
  running: string,
  kind: 'maybe' | 'answered',
  everyMs = 2000,
): void {
  const loss = runOf(story, running).timeline.find(({ type }) => type === 'RECLAIMED');
  assert.ok(loss);
  const heartbeat = { kind: 'heartbeat', actor: 'w1', worker: 'w1', running: [running] } as const;
  for (let at = loss.t - 20_000; at < loss.t; at += everyMs) {
    const outcome = kind === 'maybe' ? ({ kind } as const) : ({ kind, value: null } as const);
    story.history.push({ ...heartbeat, running: [running], startedAt: at, endedAt: at + 10, outcome });
  }
}
