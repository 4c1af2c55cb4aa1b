import assert from 'node:assert/strict';
import { until } from '../service-process.js';
import type { Cluster } from './cluster.js';
import type { LauncherScene } from './launcher-scene.js';
import type { TestNamespace } from './test-namespace.js';

/** Where a scenario takes place. */
export interface RealPlace {
  readonly cluster: Cluster;
  readonly namespace: TestNamespace;
  readonly scene: LauncherScene;
}

/** A run, what becomes of it on a cluster, and what the service must know of it afterwards. */
export interface Scenario {
  /** Of its recording. */
  readonly name: string;
  /** Title of its test. */
  readonly promise: string;
  /** The run; a recording takes the place of its image. */
  readonly body: Readonly<Record<string, unknown>>;
  /** What others do to a real cluster meanwhile. */
  readonly interfere?: (place: RealPlace, run: string) => Promise<void>;
  /** Waits for the run's end and judges it. */
  readonly judge: (scene: LauncherScene, run: string) => Promise<void>;
  /** What else is true on a real cluster, after that. */
  readonly afterwards?: (place: RealPlace, run: string) => Promise<void>;
  /** The pod template is part of its recording: what a launcher sends later must be what the cluster was given. */
  readonly hasTemplate?: true;
}

const IMAGE = 'local/busybox:1';
/** Works until it is told to end, and then ends as if all was well. */
export const PATIENT = 'trap "exit 0" TERM; echo working; while :; do sleep 0.1; done';
/** Works for ever in the first attempt of its run, and not at all in the second. */
const FIRST_ONLY = `case "$HOSTNAME" in *-1-*) ${PATIENT} ;; esac`;
export const RETRIED = [
  '1 SUBMITTED',
  '1 STARTED',
  '1 FAILED',
  '1 RETRIED',
  '2 SUBMITTED',
  '2 STARTED',
  '2 COMPLETED',
];

export const SCENARIOS: readonly Scenario[] = [
  {
    name: 'success',
    promise: 'a program gets its inputs, and its outputs, events and log come back',
    body: script(
      `echo first; echo '{"type": "PROGRESS", "msg": 40}'; cat "$SERVICE_INPUT_PATH"; echo; echo '{"sum": 42}' >"$SERVICE_OUTPUT_PATH"`,
      { inputs: { left: 40, right: 2 } },
    ),
    judge: async (scene, run) => {
      const { state, outputs } = await scene.ended(run);
      assert.deepEqual([state, outputs], ['COMPLETED', { sum: 42 }]);
      assert.deepEqual(await scene.timeline(run), ['1 SUBMITTED', '1 STARTED', '1 PROGRESS', '1 COMPLETED']);
      const lines = await scene.logLines(run);
      assert.deepEqual([lines[0], JSON.parse(lines[2] ?? '')], ['first', { left: 40, right: 2 }]);
    },
  },
  {
    name: 'exit-code',
    promise: 'a program that fails is reported with its exit code and its last lines',
    body: script('echo out of luck; exit 7'),
    judge: async (scene, run) => {
      const { state, execution_summary: summary } = await scene.ended(run);
      assert.deepEqual([state, summary.cause, summary.exit_code], ['FAILED', 'exit', 7]);
      assert.match(summary.error_message, /exit code 7[^]*out of luck/);
    },
  },
  {
    name: 'oom',
    promise: 'a program that reaches its memory limit is reported as out of memory',
    body: script('x=x; while :; do x="$x$x"; done', { constraints: { ram_mb: 32 } }),
    judge: async (scene, run) => {
      const { state, execution_summary: summary } = await scene.ended(run);
      assert.deepEqual([state, summary.cause, summary.exit_code], ['FAILED', 'oom', 137]);
    },
  },
  {
    name: 'image',
    promise:
      'an image that cannot be pulled ends the run after the grace period; meanwhile explain says why it waits',
    body: { image: '127.0.0.1:1/nowhere:1' },
    judge: async (scene, run) => {
      await until(
        async () => /ErrImagePull|ImagePullBackOff/.test(await scene.explanation(run)),
        'explain says why',
      );
      const { state, execution_summary: summary } = await scene.ended(run);
      assert.deepEqual([state, summary.cause], ['FAILED', 'image']);
      assert.deepEqual(await scene.timeline(run), ['1 SUBMITTED', '1 FAILED']);
    },
  },
  {
    name: 'unschedulable',
    promise:
      'a run that fits on no node waits, explain says why in the words of the scheduler, and a cancel removes it',
    body: script('true', { constraints: { cpu: 100 } }),
    judge: async (scene, run) => {
      await scene.runs.untilState(run, 'ASSIGNED');
      await until(
        async () => /Insufficient cpu/.test(await scene.explanation(run)),
        'explain names the reason',
      );
      await scene.cancel(run);
      assert.deepEqual(await scene.timeline(run), ['1 SUBMITTED', '1 CANCELLED']);
    },
  },
  {
    name: 'cancel',
    promise: 'a cancelled run ends',
    body: script('trap "echo stopping; exit 42" TERM; echo working; while :; do sleep 0.1; done'),
    judge: async (scene, run) => {
      await scene.runs.untilState(run, 'RUNNING');
      await scene.cancel(run);
      assert.deepEqual(await scene.timeline(run), ['1 SUBMITTED', '1 STARTED', '1 CANCELLED']);
    },
  },
  {
    name: 'evicted',
    promise: 'a run whose pod is evicted gets another attempt, without cost',
    body: script(`case "$HOSTNAME" in *-1-*) head -c 60000000 /dev/zero >/longshore/big; ${PATIENT} ;; esac`),
    judge: judgeRetried,
  },
  {
    name: 'pod-deleted',
    promise: 'a run whose pod somebody deletes gets another attempt, although its program ends with 0',
    body: script(FIRST_ONLY),
    interfere: async ({ cluster, namespace, scene }, run) => {
      await scene.runs.untilState(run, 'RUNNING');
      const { metadata } = await namespace.podOf(run);
      await cluster.api.must('DELETE', `${namespace.podsPath}/${metadata.name}`);
    },
    judge: judgeRetried,
  },
  {
    name: 'job-deleted',
    promise: 'a run whose job somebody deletes gets another attempt',
    body: script(FIRST_ONLY),
    interfere: async ({ cluster, namespace, scene }, run) => {
      await scene.runs.untilState(run, 'RUNNING');
      const job = (await namespace.podOf(run)).metadata.ownerReferences[0].name;
      namespace.recorder.markDeletedByOthers(job);
      await cluster.api.must('DELETE', `${namespace.jobsPath}/${job}?propagationPolicy=Background`);
    },
    judge: judgeRetried,
  },
  {
    name: 'node-lost',
    promise: 'a run whose node is lost gets another attempt, without cost',
    body: script(FIRST_ONLY),
    interfere: async ({ cluster, scene }, run) => {
      await scene.runs.untilState(run, 'RUNNING');
      const removeNode = await cluster.addEmptyNode();
      await cluster.kill('kubelet');
      try {
        await scene.runs.until(run, 'leaves the node', ({ current_attempt: attempt }) => attempt === 2);
      } finally {
        await cluster.startPart('kubelet');
        await removeNode();
      }
    },
    judge: judgeRetried,
  },
];

/** A run of a shell script. */
export function script(
  text: string,
  rest: Readonly<Record<string, unknown>> = {},
): Readonly<Record<string, unknown>> {
  return { image: IMAGE, command: ['sh', '-c', text], ...rest };
}

async function judgeRetried(scene: LauncherScene, run: string): Promise<void> {
  const { state, retry_policy: policy } = await scene.ended(run);
  assert.deepEqual([state, policy.max_attempts], ['COMPLETED', 1]);
  // The recording of the second attempt is that of `success`, which reports its progress.
  const timeline = (await scene.timeline(run)).filter((entry) => !entry.endsWith(' PROGRESS'));
  assert.deepEqual(timeline, RETRIED);
  const failed = (await scene.runs.get(run)).events.find(({ type }: { type: string }) => type === 'FAILED');
  assert.equal(failed.payload.cause, 'infrastructure');
}
