import { engineMessage } from './docker-engine.js';

/**
 * What engines say when they cannot give a container its GPUs, each from the beginning of the message on: a path, a user or a
 * command of a run comes later in the words of an engine, or in quotes.
 */
const SENTENCES: readonly RegExp[] = [
  // Docker without a driver for the request.
  /^could not select device driver "[^"]*" with (?:any )?capabilities: /,
  /^(?:linux runtime spec devices: |error gathering device information |could not get device information )/,
  // The container device interface (CDI) of Docker and Podman: no description of the device.
  /^(?:[a-z ]+: )*(?:CDI device injection failed|failed to inject CDI devices|setting up CDI devices|unresolvable CDI devices) ?:?/i,
  // A hook or the runtime of NVIDIA or AMD, before the program of the container.
  /^[^"'`/]*\bhooks? #?\d+:.*\b(?:nvidia|amd)-(?:container|ctk)[a-z-]*: /i,
  /^[^"'`]*\b(?:fork\/)?exec \S*(?:nvidia|amd)-container-[a-z-]+: no such file or directory/i,
  /^[^"'`/]*could not apply required modification to OCI specification: /,
];

/** The image or the run asks for a newer driver than the machine has: another machine may have it. */
const OTHER_DRIVER = /^[^"'`/]*\bhooks? #?\d+:.*nvidia-container-cli: requirement error: /i;

/** Whether the engine may mean its GPUs. Words can be imitated: a container of the worker's own with these GPUs decides. */
export function mayMeanGpus(error: unknown): boolean {
  const words = engineMessage(error);
  return SENTENCES.some((sentence) => sentence.test(words));
}

/** The tool of a hook and what it says. */
const OF_HOOK = /\b(?:nvidia|amd)-(?:container|ctk)[a-z-]*: .*/i;

/** What an operator wants to read of such words: of a hook, not how the engine came to it. */
export function gpuWords(words: string): string {
  return (OF_HOOK.exec(words)?.[0] ?? words).replace(/: unknown$/, '');
}

/** Whether an image or run asks for another driver than this machine has. Only a run with GPUs can. */
export function wantsOtherDriver(error: unknown): boolean {
  return OTHER_DRIVER.test(engineMessage(error));
}
