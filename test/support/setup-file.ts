import 'reflect-metadata';
import { afterAll, afterEach, vi } from 'vitest';
import { cleanUp } from './clean-up.js';

// Files share a process. A spied function may be one of the fake timers, so these end last.
afterEach(() => {
  vi.restoreAllMocks();
  vi.useRealTimers();
});
afterAll(cleanUp);
