import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, test } from 'vitest';
import { seedRuns } from '../../support/browser/browser-runs.js';
import { NO_BROWSER, openPage, THEMES } from '../../support/browser/browser.js';
import { RunSteps } from '../../support/runs/run-steps.js';
import { startService, type ServiceProcess, type TestProcess } from '../../support/service-process.js';
import { senderTo } from '../../support/app/test-app.js';
import { openTestDatabase, type TestDatabase } from '../../support/test-database.js';
import { endWorker, ScriptImages, untilFile } from '../../support/workers/worker-process.js';
import { skipFor } from '../../support/skip.js';

/** Where the pictures go: `PICTURES=docs/pictures npm test -- dashboard/pictures` makes those of the README anew. */
const FOLDER = process.env.PICTURES ?? join(tmpdir(), 'longshore-pictures');
const WIDTH = 1280;

const TRAINING = `
for epoch in 1 2 3 4 5 6 7; do
  echo "epoch $epoch/10: loss 0.$((91 - epoch * 9))"
  echo "{\\"type\\":\\"PROGRESS\\",\\"msg\\":$((epoch * 10))}"
done
echo 'warning: learning rate is still warming up' >&2
echo 'writing checkpoint 7 of 10'`;

describe('the dashboard with work going on', skipFor(NO_BROWSER), () => {
  let database: TestDatabase;
  let service: ServiceProcess;
  let worker: TestProcess;
  let running: string;
  let gate: { readonly open: () => Promise<void> };

  beforeAll(async () => {
    database = await openTestDatabase();
    await seedRuns(database.dataSource, 4000);
    service = await startService({ env: { DATABASE_URL: database.url, SERVICE_SCHEDULER: 'fit' } });
    const steps = new RunSteps(senderTo(service.url, service.adminKey));
    const images = await ScriptImages.make();
    const ready = images.gate('go');
    gate = ready;
    await images.add('train-model', `${TRAINING}\n${untilFile(ready.path)}`);
    const made = [];
    for (const epochs of [10, 20, 30]) {
      made.push(
        await steps.create({
          image: 'train-model',
          inputs: { dataset: 'harbour-2026', epochs, schedule: { warm_up: 3, decay: 0.9 } },
          constraints: { cpu: 1, ram_mb: 512 },
          retry_policy: { max_attempts: 3 },
          event_delivery: { topic: 'training' },
        }),
      );
    }
    running = made[0]?.id ?? '';
    worker = await images.startWorker({ url: service.url, key: service.adminKey, id: 'crane-1' });
  });
  afterAll(async () => {
    await gate?.open();
    if (worker) await endWorker(worker);
    await service?.stop();
    await database?.close();
  });

  for (const theme of THEMES) {
    test(`shows the overview, the runs and a run that prints, ${theme}`, async () => {
      const opened = await openPage({ url: service.url, apiKey: service.adminKey, theme, width: WIDTH });
      const { page } = opened;
      await page.getByRole('link', { name: /^running \d/ }).waitFor();
      await page.getByRole('link', { name: '1 active' }).waitFor();
      await opened.checkAccessibility();
      await opened.screenshot(FOLDER, 'overview');
      await page.getByRole('link', { name: 'Runs', exact: true }).click();
      await page.getByRole('row').nth(10).waitFor();
      await opened.checkAccessibility();
      await opened.screenshot(FOLDER, 'runs');
      await page.goto(`${service.url}/ui/runs/${running}`);
      await page.getByRole('log').getByText('writing checkpoint 7 of 10').waitFor();
      await opened.checkAccessibility();
      await opened.screenshot(FOLDER, 'run');
    });
  }
});
