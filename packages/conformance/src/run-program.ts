// What workers under test execute: `node run-program.js FOLDER`, FOLDER being where it leaves its traces.
import { appendFileSync, existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { STARTS_FILE, WORKER_KEY_START, type ProgramInputs } from './program-traces.js';

/** Time between the two pieces of a value, in milliseconds. */
const CUT_MS = 100;

const [folder = '.', ...args] = process.argv.slice(2);
const inputPath = process.env['SERVICE_INPUT_PATH'] ?? '';
const inputs: ProgramInputs = JSON.parse(readFileSync(inputPath, 'utf8'));
const outputPath = process.env['SERVICE_OUTPUT_PATH'] ?? '';
const hasKey = [...Object.values(process.env), ...process.argv].some((text) =>
  text?.includes(WORKER_KEY_START),
);
const traceparent = process.env['TRACEPARENT'];
const env = Object.fromEntries(
  Object.entries(process.env).filter(([name]) => /^(?:KIT|SERVICE)_/.test(name)),
);
const start = { mark: inputs.mark, pid: process.pid, hasKey, inputPath, traceparent, env, args };
appendFileSync(join(folder, STARTS_FILE), `${JSON.stringify(start)}\n`);

for (const line of inputs.print ?? []) process.stdout.write(`${line}\n`);
for (const name of inputs.print_env ?? []) {
  const value = process.env[name] ?? '';
  process.stdout.write(`whole: ${value}\ncut: ${value.slice(0, 5)}`);
  await sleep(CUT_MS);
  process.stdout.write(
    `${value.slice(5)}\n${JSON.stringify({ type: 'SHOWN', msg: value, payload: { value } })}\n`,
  );
}
if (inputs.sleep_s !== undefined) await sleep(inputs.sleep_s * 1000);
if (inputs.gate !== undefined) while (!existsSync(join(folder, inputs.gate))) await sleep(25);
if (inputs.outputs !== undefined) {
  const found = existsSync(outputPath) ? readFileSync(outputPath, 'utf8') : '';
  const template: unknown = found === '' ? null : JSON.parse(found);
  writeFileSync(outputPath, JSON.stringify({ ...inputs.outputs, template }));
}
if (inputs.print_env !== undefined) {
  const values = inputs.print_env.map((name) => [name, process.env[name]]);
  writeFileSync(outputPath, JSON.stringify(Object.fromEntries(values)));
}
if (inputs.raw_output !== undefined) writeFileSync(outputPath, inputs.raw_output);
process.exitCode = inputs.exit ?? 0;
