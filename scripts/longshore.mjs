#!/usr/bin/env node
// `npx longshore ...`: the command line.
import { become } from './become.mjs';

await become('cli/main.js');
