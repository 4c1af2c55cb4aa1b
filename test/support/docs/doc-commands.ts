import assert from 'node:assert/strict';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { parse } from 'yaml';
import { PROJECT } from '../service-process.js';

/** The benchmark and the variable of a command exist. @throws AssertionError */
export async function checkBenchCommand(command: string): Promise<void> {
  const [, variable, name = ''] = /^(?:(BENCH_\w+)=\S+ )?npm run bench -- (\S+)$/.exec(command) ?? [];
  const benchmarks = await readdir(join(PROJECT, 'bench', 'benchmarks'));
  assert.ok(['all', 'page'].includes(name) || benchmarks.includes(`${name}.mjs`), `no benchmark: ${command}`);
  if (variable === undefined) return;
  const files = (await readdir(join(PROJECT, 'bench'), { recursive: true, withFileTypes: true })).filter(
    (entry) => entry.isFile() && entry.name.endsWith('.mjs') && !entry.parentPath.includes('node_modules'),
  );
  const texts = await Promise.all(files.map((entry) => readFile(join(entry.parentPath, entry.name), 'utf8')));
  assert.ok(
    texts.some((text) => text.includes(`process.env.${variable}`)),
    `nothing reads the variable: ${command}`,
  );
}

/** The file, profile, service and program that a command of Docker Compose names exist. @throws AssertionError */
export async function checkComposeCommand(command: string): Promise<void> {
  const match = /^docker compose -f (\S+)(?: --profile (\w+))? (up|build|exec)\b(.*)$/.exec(command);
  assert.ok(match, `not understood: ${command}`);
  const [, file = '', profile, action, rest = ''] = match;
  const { services }: { services: Record<string, { profiles?: string[] }> } = parse(
    await readFile(join(PROJECT, file), 'utf8'),
  );
  if (profile !== undefined) {
    const profiles = Object.values(services).flatMap((service) => service.profiles ?? []);
    assert.ok(profiles.includes(profile), `no profile: ${command}`);
  }
  const words = rest
    .replaceAll(/ -e \w+="?\S+"?| --(?:build|detach)\b/g, '')
    .trim()
    .split(/\s+/)
    .filter(Boolean);
  if (action !== 'exec') {
    assert.deepEqual(
      words.filter((word) => !(word in services)),
      [],
      command,
    );
    return;
  }
  const [service = '', program] = words;
  assert.ok(service in services, `no service: ${command}`);
  assert.equal(program, 'longshore', command);
  assert.match(await readFile(join(PROJECT, 'docker', 'Dockerfile'), 'utf8'), /bin\/longshore\b/);
}

/** The folder, namespace, Secret and Deployment that a command of kubectl names are those of the files. @throws AssertionError */
export async function checkKubectlCommand(command: string): Promise<void> {
  const folder = join(PROJECT, 'docker', 'kubernetes');
  const texts = await Promise.all(
    (await readdir(folder)).map((name) => readFile(join(folder, name), 'utf8')),
  );
  const files = texts.join('\n');
  const named = [
    [/apply -k (\S+)/, /^docker\/kubernetes$/],
    [/(?:--namespace|namespace) (\S+)/, /\nnamespace: longshore\n/],
    [
      /secret generic (\S+) --from-literal=(\S+)=KEY/,
      /secretKeyRef:\s*\{ name: longshore-worker, key: api-key \}/,
    ],
    [/deployment\/(\S+)/, /kind: Deployment\nmetadata:\n {2}name: longshore-worker\n/],
  ] as const;
  const found = named.filter(([pattern]) => pattern.test(command));
  assert.ok(found.length > 0, `not understood: ${command}`);
  for (const [pattern, there] of found) {
    const [, name = '', key = ''] = pattern.exec(command) ?? [];
    assert.ok(there.test(name) || (there.test(files) && there.source.includes(name)), command);
    assert.ok(there.source.includes(key), command);
  }
}
