import { join } from 'node:path';
import { pathToFileURL } from 'node:url';

/**
 * Becomes another program of the build, which ends this process when it is through. It hears signals itself.
 * @param program its path below the folder of the compiled sources
 * @param argv its arguments
 */
export async function becomeProgram(program: string, argv: readonly string[]): Promise<void> {
  const main = join(import.meta.dirname, '..', program);
  process.argv.splice(1, process.argv.length, main, ...argv);
  await import(pathToFileURL(main).href);
}
