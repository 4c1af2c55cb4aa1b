#!/usr/bin/env node
// The command line. In a checkout it is built first when its sources have changed.
import { existsSync } from 'node:fs';

const launcher = new URL('../../../scripts/build-and-run.mjs', import.meta.url);
const isCheckout = existsSync(new URL('../src', import.meta.url));
if (isCheckout)
  await (await import(launcher.href)).buildAndRun('packages/cli/dist/main.js', ['libraries', 'clients']);
else await import('../dist/main.js');
