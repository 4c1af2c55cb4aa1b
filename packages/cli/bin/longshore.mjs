#!/usr/bin/env node
// The command line. In a checkout it is built first when its sources have changed.
import { existsSync } from 'node:fs';

const launcher = new URL('../../../scripts/run.mjs', import.meta.url);
const isCheckout = existsSync(new URL('../src', import.meta.url));
if (isCheckout) await (await import(launcher.href)).buildAndRun('cli');
else await import('../dist/main.js');
