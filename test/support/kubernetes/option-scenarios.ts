import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { until } from '../service-process.js';
import type { LauncherScene } from './launcher-scene.js';
import { PATIENT, RETRIED, script, type Scenario } from './scenarios.js';

/** What launchers offer to the runs below: claims `data`, `results` and `gone` of the namespace. */
export const OPTION_VOLUMES = 'datasets=pvc:data:ro,results=pvc:results,gone=pvc:gone';

const TOKEN = 'value of the token';
const KEY = '{"private_key": "-----BEGIN\\nKEY-----"}';
const HOST = 'database.internal';
const BYTES = 'ä\r\n\tand no newline at the end';
const OWNER = '1000:2000';

/** Prints what a program sees. Values of secrets would be masked: their hashes are printed. */
const LOOK = `#!/bin/sh
set -eu
say() { name=$1; shift; echo "$name: $*"; }
hash() { sha256sum | cut -c1-12; }
mode() { stat -c '%a %u:%g' "$1"; }
say user "$(id -u):$(id -g)"
say workdir "$(pwd)"
say words "$1|$2"
say variables "$GREETING|$SERVICE_RUN_ATTEMPT|$SERVICE_CPU|$SERVICE_RAM_MB"
say secrets "$(printf %s "$TOKEN" | hash) $(printf %s "$DB_HOST" | hash)"
say script "$(mode /etc/job/look.sh)"
say key "$(mode "$KEY_FILE") $(hash <"$KEY_FILE")"
say bytes "$(mode /etc/bytes) $(hash </etc/bytes)"
say data "$(cat /data/set) $(awk '$2 == "/data" { split($4, o, ","); print o[1] }' /proc/mounts)"
for folder in out mine scratch; do say "$folder" "$(mode "/$folder") $(ls -A "/$folder" | wc -l)"; done
for folder in out mine scratch dev/shm; do echo result >"/$folder/result"; done
say shm "$(awk '$2 == "/dev/shm" { print $3 }' /proc/mounts)"
cd /sys/fs/cgroup
say limits "$(cat cpu/cpu.shares cpu/cpu.cfs_quota_us cpu/cpu.cfs_period_us memory/memory.limit_in_bytes | tr '\\n' ' ')"
say privileges $(awk '/^(CapEff|NoNewPrivs|Seccomp):/ { print $2 }' /proc/self/status) "$(ls /var/run/secrets 2>/dev/null || echo none)"
`;

const SEEN = [
  `user: ${OWNER}`,
  'workdir: /work',
  'words: $(pwd) $HOME|"quoted" $$',
  'variables: $(HOME) $$|1|1|64',
  `secrets: ${hashOf(TOKEN)} ${hashOf(HOST)}`,
  `script: 555 ${OWNER}`,
  `key: 400 ${OWNER} ${hashOf(KEY)}`,
  `bytes: 444 ${OWNER} ${hashOf(BYTES)}`,
  'data: content ro',
  `out: 755 ${OWNER} 0`,
  `mine: 755 ${OWNER} 0`,
  `scratch: 755 ${OWNER} 0`,
  'shm: tmpfs',
  `limits: 512 150000 100000 ${64 * 2 ** 20} `,
  'privileges: 0000000000000000 1 2 none',
];

/** Runs with the options of the API, in the order in which they use the volumes. */
export const OPTION_SCENARIOS: readonly Scenario[] = [
  {
    name: 'options/seen',
    promise: 'a program sees every option of its run as it was asked for',
    hasTemplate: true,
    body: script('', {
      name: 'nightly run',
      labels: { team: 'vision', 'org/stage': 'a', note: 'two words' },
      command: ['/etc/job/look.sh'],
      args: ['$(pwd) $HOME', '"quoted" $$'],
      workdir: '/work',
      user: OWNER,
      stop_grace_s: 25,
      env: { GREETING: '$(HOME) $$' },
      secrets: { TOKEN: 'token' },
      secrets_from: [{ secret: 'database', prefix: 'DB_' }],
      constraints: { cpu_millis: 500, cpu_limit_millis: 1500, ram_mb: 64, shm_mb: 16 },
      mounts: [
        { volume: 'datasets', path: '/data', read_only: true },
        { volume: 'results', path: '/out', sub_path: 'team a' },
        { volume: 'results', path: '/mine', sub_path: 'runs/${run.id}' },
        { scratch_mb: 8, path: '/scratch' },
      ],
      files: {
        '/etc/job/look.sh': { content: LOOK, mode: '0555' },
        '/run/keys/key.json': { secret: 'key', env: 'KEY_FILE', mode: '0400' },
        '/etc/bytes': { content: BYTES },
      },
    }),
    judge: async (scene, run) => {
      const { state } = await scene.ended(run);
      assert.deepEqual([state, await scene.logLines(run)], ['COMPLETED', SEEN]);
    },
    // Nothing of scratch, files and secrets stays on the node.
    afterwards: async ({ cluster, namespace }, run) => {
      const job = namespace.recorder.jobNames().find((name) => name.includes(run)) ?? '';
      const [pod] = namespace.recorder.podVersions(job);
      const folder = cluster.podFolder(pod.metadata.uid);
      await until(() => !existsSync(folder), 'the node has removed the volumes of the pod');
    },
  },
  {
    name: 'options/next',
    promise:
      'what a run wrote into a volume is there for the next one, which cannot change what it only reads',
    hasTemplate: true,
    body: script(
      `cat '/all/team a/result'; echo again >>/out/result; cat /out/result; stat -c '%a %u:%g' /out
(echo x >/all/x) 2>/dev/null || echo refused; ls -A /scratch`,
      {
        user: OWNER,
        mounts: [
          { volume: 'results', path: '/all', read_only: true },
          { volume: 'results', path: '/out', sub_path: 'team a' },
          { scratch_mb: 8, path: '/scratch' },
        ],
      },
    ),
    judge: async (scene, run) => {
      const { state } = await scene.ended(run);
      const lines = ['result', 'result', 'again', `755 ${OWNER}`, 'refused'];
      assert.deepEqual([state, await scene.logLines(run)], ['COMPLETED', lines]);
    },
  },
  {
    name: 'options/grow',
    promise: 'after an attempt that was out of memory, the next one has more, and empty scratch',
    hasTemplate: true,
    body: script(
      `echo "$(ls -A /scratch)|$SERVICE_RAM_MB|$(cat /sys/fs/cgroup/memory/memory.limit_in_bytes)"; touch /scratch/x
case "$SERVICE_RUN_ATTEMPT" in 1) x=x; while :; do x="$x$x"; done ;; esac`,
      {
        constraints: { ram_mb: 32 },
        retry_policy: { max_attempts: 2, grow: { ram_mb: { factor: 1.5, max: 256 } } },
        mounts: [{ scratch_mb: 8, path: '/scratch' }],
      },
    ),
    judge: async (scene, run) => {
      const { constraints, execution_summary: summary } = await scene.ended(run);
      // The recording of the second attempt is that of `success`, which reports its progress.
      const timeline = (await scene.timeline(run)).filter((entry) => !entry.endsWith(' PROGRESS'));
      assert.deepEqual([timeline, constraints.ram_mb, summary.asked_ram_mb], [RETRIED, 48, 32]);
    },
    afterwards: async ({ scene }, run) => {
      assert.deepEqual(
        (await Promise.all([1, 2].map((attempt) => scene.logLines(run, attempt)))).flat(),
        [32, 48].map((mb) => `|${mb}|${mb * 2 ** 20}`),
      );
    },
  },
  {
    name: 'options/scratch',
    promise: 'a run that puts more into its scratch than it asked for fails, and is told so',
    body: script(`head -c 6000000 /dev/zero >/scratch/big; ${PATIENT}`, {
      mounts: [{ scratch_mb: 2, path: '/scratch' }],
    }),
    judge: (scene, run) =>
      assertFailed(scene, run, 'error', /An empty folder of the run became larger than its scratch_mb/),
  },
  {
    name: 'options/shm',
    promise: 'a run that puts more into /dev/shm than it asked for is out of memory',
    body: script(`head -c 12000000 /dev/zero >/dev/shm/big; ${PATIENT}`, {
      constraints: { ram_mb: 64, shm_mb: 4 },
    }),
    judge: (scene, run) => assertFailed(scene, run, 'oom', /its \/dev\/shm was full/),
  },
  {
    name: 'options/claim',
    promise: 'a run whose volume has lost its claim waits, explain names the volume, and a cancel removes it',
    body: script('true', { mounts: [{ volume: 'gone', path: '/gone' }] }),
    judge: (scene, run) => assertWaits(scene, run, /The volume 'gone' is missing/),
  },
  {
    name: 'options/sub-path',
    promise: 'a run whose folder within a volume leads out of it by a link waits, and explain says why',
    body: script('true', { mounts: [{ volume: 'results', path: '/out', sub_path: 'link/new' }] }),
    judge: (scene, run) =>
      assertWaits(scene, run, /A part of the sub_path of the volume 'results' is a link or no folder/),
  },
];

/** Stores the secrets that the runs name. */
export async function storeOptionSecrets(scene: LauncherScene): Promise<void> {
  const secrets = {
    token: { kind: 'opaque', value: TOKEN },
    key: { kind: 'opaque', value: KEY },
    database: { kind: 'map', value: JSON.stringify({ HOST }) },
  };
  for (const [name, body] of Object.entries(secrets)) {
    const { status, text } = await scene.send('PUT', `/secrets/${name}`, { body });
    assert.ok(status === 200 || status === 201, text);
  }
}

async function assertFailed(
  scene: LauncherScene,
  run: string,
  cause: string,
  message: RegExp,
): Promise<void> {
  const { state, execution_summary: summary } = await scene.ended(run);
  assert.deepEqual([state, summary.cause], ['FAILED', cause]);
  assert.match(summary.error_message, message);
  assert.deepEqual(await scene.timeline(run), ['1 SUBMITTED', '1 STARTED', '1 FAILED']);
}

async function assertWaits(scene: LauncherScene, run: string, reason: RegExp): Promise<void> {
  await until(async () => reason.test(await scene.explanation(run)), 'explain names the reason');
  await scene.cancel(run);
  assert.deepEqual(await scene.timeline(run), ['1 SUBMITTED', '1 CANCELLED']);
}

function hashOf(text: string): string {
  return createHash('sha256').update(text).digest('hex').slice(0, 12);
}
