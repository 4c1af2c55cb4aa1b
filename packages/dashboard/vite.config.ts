import react from '@vitejs/plugin-react';
import { defineConfig } from 'vite';
import { precompress } from './precompress.ts';

/** The service that the development server passes API calls on to. */
const SERVICE = process.env['SERVICE_URL'] ?? 'http://127.0.0.1:5555';

export default defineConfig(({ command }) => ({
  root: import.meta.dirname,
  // Relative: a proxy may serve the page under a prefix. The service makes it relative to the address (dashboard.controller.ts).
  base: command === 'build' ? './' : '/ui/',
  plugins: [react(), precompress()],
  build: {
    outDir: 'dist',
    // Browsers of 2024 and later: light-dark(), CSS nesting.
    target: ['chrome123', 'edge123', 'firefox125', 'safari17.5'],
    // An image in a data: address would need a wider content security policy.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    rolldownOptions: {
      // On a busy machine it remarks on the time of every build.
      checks: { pluginTimings: false },
      output: {
        // Libraries change more seldom than pages; kept apart, they stay in the browser's cache.
        codeSplitting: { groups: [{ name: 'libraries', test: /node_modules/ }] },
      },
    },
  },
  server: { proxy: { '^/(?!ui/)': { target: SERVICE } } },
}));
