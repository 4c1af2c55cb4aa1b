import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { TERMINAL_STATES } from '../../../src/runs/machine/run-state.js';
import { RunViews } from '../runs/run-views.js';
import {
  launch,
  makeDataDir,
  startService,
  type ServiceProcess,
  type TestProcess,
} from '../service-process.js';
import { senderTo, type Send } from '../app/test-app.js';
import { WORKER_MAIN } from '../workers/worker-process.js';

/* oxlint-disable typescript/no-explicit-any -- tests look into answers of any shape */

const ADMIN_KEY = 'e2e-admin-key-of-the-tests';
const WORKER_KEY = 'e2e-worker-key-of-the-tests';

/** A pod leaves a lost node after two seconds in place of five minutes, and is evicted when it writes more than 20 MiB. */
const POD_TEMPLATE = `
spec:
  tolerations:
    - { key: node.kubernetes.io/not-ready, operator: Exists, effect: NoExecute, tolerationSeconds: 2 }
    - { key: node.kubernetes.io/unreachable, operator: Exists, effect: NoExecute, tolerationSeconds: 2 }
  initContainers:
    - { name: run, resources: { limits: { ephemeral-storage: 20Mi } } }
`;

/** A service and launchers for a Kubernetes cluster, all of them built programs. */
export class LauncherScene {
  readonly send: Send;
  readonly runs: RunViews;
  readonly #launchers = new Set<TestProcess>();

  private constructor(
    readonly service: ServiceProcess,
    private readonly kubeconfig: string,
    private readonly namespace: string,
    private readonly volumes: string,
  ) {
    this.send = senderTo(service.url, ADMIN_KEY);
    this.runs = new RunViews(this.send);
  }

  /** @param cluster where launchers submit: the text of a kubeconfig, a namespace, and SERVICE_WORKER_VOLUMES */
  static async start(cluster: {
    readonly kubeconfig: string;
    readonly namespace: string;
    readonly volumes?: string;
    readonly serviceEnv?: Readonly<Record<string, string>>;
  }): Promise<LauncherScene> {
    const service = await startService({
      env: {
        SERVICE_API_KEYS: `admin:${ADMIN_KEY},worker:${WORKER_KEY}`,
        SERVICE_WORKER_TIMEOUT: '15',
        SERVICE_REAPER_INTERVAL: '0.5',
        SERVICE_SECRETS_KEY: randomBytes(32).toString('base64'),
        ...cluster.serviceEnv,
      },
    });
    return new LauncherScene(service, cluster.kubeconfig, cluster.namespace, cluster.volumes ?? '');
  }

  /** Starts the worker program as a launcher, and waits until it is registered unless it is to fail. */
  async launcher(
    id = 'launcher',
    env: Readonly<Record<string, string>> = {},
    kubeconfig = this.kubeconfig,
  ): Promise<TestProcess> {
    const launched = await this.launchLauncher(id, env, kubeconfig);
    await launched.untilOutput(/registered/);
    return launched;
  }

  /** The same without the wait. */
  async launchLauncher(
    id = 'launcher',
    env: Readonly<Record<string, string>> = {},
    kubeconfig = this.kubeconfig,
  ): Promise<TestProcess> {
    const folder = await makeDataDir();
    const file = join(folder, 'kubeconfig');
    const template = join(folder, 'pod-template.yaml');
    await writeFile(template, POD_TEMPLATE);
    await writeFile(file, kubeconfig, { mode: 0o600 });
    const launched = await launch(WORKER_MAIN, {
      env: {
        SERVICE_URL: this.service.url,
        SERVICE_API_KEY: WORKER_KEY,
        SERVICE_WORKER_ID: id,
        SERVICE_WORKER_STATE_DIR: folder,
        SERVICE_WORKER_TICK: '0.2',
        SERVICE_WORKER_RUNTIME: 'kubernetes',
        KUBECONFIG: file,
        SERVICE_WORKER_KUBERNETES_NAMESPACE: this.namespace,
        SERVICE_WORKER_KUBERNETES_HELPER_IMAGE: 'local/busybox:1',
        SERVICE_WORKER_KUBERNETES_PULL_POLICY: 'IfNotPresent',
        // Longer than the ten seconds after which a changed reason is reported.
        SERVICE_WORKER_KUBERNETES_PULL_GRACE: '15',
        SERVICE_WORKER_KUBERNETES_POD_TEMPLATE: template,
        SERVICE_WORKER_VOLUMES: this.volumes,
        ...env,
      },
    });
    this.#launchers.add(launched);
    return launched;
  }

  /** Waits for the end of the run. */
  ended(id: string): Promise<any> {
    return this.runs.untilState(id, ...TERMINAL_STATES);
  }

  /** Types of the run's events that change its state, by attempt; how often it says why it waits does not matter. */
  async timeline(id: string): Promise<string[]> {
    const all = await this.runs.timeline(id);
    return all.filter((entry, index) => !(entry.endsWith(' SUBMITTED') && all[index - 1] === entry));
  }

  /** Lines of the program in one attempt. */
  async logLines(id: string, attempt = 1): Promise<string[]> {
    const { status, text } = await this.send('GET', `/runs/${id}/logs?attempt=${attempt}`);
    assert.equal(status, 200, text);
    return text
      .split('\n')
      .filter((line) => line !== '')
      .map((line) => JSON.parse(line).text);
  }

  async cancel(id: string): Promise<void> {
    assert.equal((await this.send('POST', `/runs/${id}/cancel`)).status, 200);
  }

  /** What `explain` says of the run, as text. */
  async explanation(id: string): Promise<string> {
    return (await this.send('GET', `/runs/${id}/explain`)).text;
  }

  /** SIGTERM to launchers and service, and their ends in order. */
  async end(): Promise<void> {
    for (const launched of this.#launchers) {
      if (launched.child.exitCode !== null || launched.child.signalCode !== null) continue;
      launched.signal('SIGTERM');
      assert.deepEqual(await launched.exited, { code: 0, signal: null }, launched.output);
    }
    assert.deepEqual(await this.service.kill('SIGTERM'), { code: 0, signal: null }, this.service.output);
  }
}
