import { connectEngine, engineMessage, withLimit } from './docker-engine.js';
import { describeEngineAddress, readEngineAddress, selectedContext } from './engine-address.js';

const PING_MS = 3_000;

/** Why no engine can be used where DOCKER_HOST says, in one sentence; null when one answers within 3 s. */
export async function engineProblem(env: NodeJS.ProcessEnv): Promise<string | null> {
  let where = 'the container engine';
  try {
    const address = readEngineAddress(env);
    where = `the container engine at ${describeEngineAddress(address)}`;
    const engine = await connectEngine(address, PING_MS);
    await withLimit(PING_MS, 'ping', () => engine.ping());
    return null;
  } catch (error) {
    const context = (env['DOCKER_HOST'] ?? '') === '' ? selectedContext(env) : null;
    const hint =
      context === null
        ? ''
        : `; the Docker context '${context}' is selected, but Longshore reads only DOCKER_HOST: ` +
          `set it to the address that 'docker context inspect' shows`;
    return `${where} cannot be used: ${engineMessage(error)}${hint}`;
  }
}
