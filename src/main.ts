// Only what is needed to hear signals is loaded at once: they may come while the rest is loaded.
const stop = new AbortController();
let isLoaded = false;
for (const signal of ['SIGTERM', 'SIGINT'] as const) {
  // Every further signal changes nothing: npm passes on what the process group got already.
  process.on(signal, () => {
    if (!isLoaded) process.exit(0);
    stop.abort();
  });
}
const { runProgram } = await import('./bootstrap/service-program.js');
isLoaded = true;
process.exit(await runProgram(process.argv.slice(2), stop.signal));
