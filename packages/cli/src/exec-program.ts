import { pathToFileURL } from 'node:url';

/**
 * Replaces this program by another one in the same process, which ends the process itself and handles signals itself.
 * @param main its compiled main file
 * @param argv its arguments
 */
export async function execProgram(main: string, argv: readonly string[]): Promise<void> {
  process.argv.splice(1, process.argv.length, main, ...argv);
  await import(pathToFileURL(main).href);
}
