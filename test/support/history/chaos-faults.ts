import { setTimeout as sleep } from 'node:timers/promises';
import { CHAOS_SETTINGS, type ChaosDeployment } from './chaos-deployment.js';
import { RecordedService } from './recorded-service.js';
import type { SeededRandom } from './seeded-random.js';

type Fault = (deployment: ChaosDeployment, random: SeededRandom) => Promise<void>;

/** Longest wait for a recovery. */
const PATIENCE_MS = 120_000;
const LONGER_THAN_TIMEOUT_MS = CHAOS_SETTINGS.workerTimeout * 1000 + 1000;

/** Everything that may happen to the service. */
const FAULTS: Readonly<Record<string, Fault>> = {
  'kill -9 of a server': (deployment, random) => deployment.killServer(random.int(0, 1)),
  'kill -9 of both servers': async (deployment) => {
    await Promise.all([deployment.killServer(0), deployment.killServer(1)]);
  },
  'a server stands still': (deployment, random) =>
    deployment.pauseServer(random.int(0, 1), random.int(500, 2500)),
  'a server stands still for longer than the worker timeout': (deployment, random) =>
    deployment.pauseServer(random.int(0, 1), LONGER_THAN_TIMEOUT_MS),
  'connections to the database terminated': async (deployment, random) => {
    for (let times = random.int(1, 4); times > 0; times -= 1) {
      await deployment.terminateBackends();
      await sleep(random.int(100, 500));
    }
  },
  'immediate stop of the database': (deployment) => deployment.crashDatabase('SIGQUIT'),
  'kill -9 of the database': (deployment) => deployment.crashDatabase('SIGKILL'),
  'requests and answers lost': (deployment, random) =>
    during(random.int(1000, 2000), deployment, 'http', { cutBefore: 8, cutAfter: 12 }),
  'connections to the database cut': (deployment, random) =>
    during(random.int(1000, 2000), deployment, 'database', { cutBefore: 0.5, cutAfter: 1 }),
  'slow network': (deployment, random) =>
    during(random.int(1000, 2000), deployment, 'http', { latencyMs: [5, 60] }),
  'a server unreachable': async ({ servers }, random) => {
    const { http } = servers[random.int(0, 1) === 0 ? 0 : 1];
    await http.misbehave({ blackhole: true });
    await sleep(random.int(800, 2000));
    await http.misbehave({});
  },
  'database silent for one server': async ({ servers }, random) => {
    const { database } = servers[random.int(0, 1) === 0 ? 0 : 1];
    await database.misbehave({ blackhole: true });
    await sleep(random.int(800, 2000));
    await database.misbehave({});
  },
  'database silent for longer than the worker timeout': (deployment) =>
    during(LONGER_THAN_TIMEOUT_MS, deployment, 'database', { blackhole: true }),
};

/** Every fault once, in an order of its own, and then again, until the time is over. */
export async function injectFaults(
  deployment: ChaosDeployment,
  service: RecordedService,
  random: SeededRandom,
  goesOn: () => boolean,
): Promise<void> {
  while (goesOn()) {
    for (const inject of shuffled(Object.values(FAULTS), random)) {
      await sleep(random.int(200, 1200));
      if (!goesOn()) break;
      await inject(deployment, random);
      await nextAcknowledgement(service, RecordedService.now());
    }
  }
}

/** Waits for a write that is acknowledged after the time; gives up after a while. */
async function nextAcknowledgement(service: RecordedService, time: number): Promise<void> {
  while (service.lastAcknowledgedAt < time && RecordedService.now() < time + PATIENCE_MS) await sleep(5);
}

async function during(
  ms: number,
  { servers }: ChaosDeployment,
  side: 'http' | 'database',
  faults: Parameters<ChaosDeployment['servers'][number]['http']['misbehave']>[0],
): Promise<void> {
  for (const server of servers) await server[side].misbehave(faults);
  await sleep(ms);
  for (const server of servers) await server[side].misbehave({});
}

function shuffled<T>(items: readonly T[], random: SeededRandom): T[] {
  return items
    .map((item) => ({ item, place: random.next() }))
    .toSorted((a, b) => a.place - b.place)
    .map(({ item }) => item);
}
