import type { Schemas } from '@longshore/client';
import { CliError, EXIT, type ExitCode } from '../cli-error.js';
import type { Session } from '../service/session.js';
import { countsText, failuresText, waitText } from './group-view.js';

/** How long the service holds a request, in seconds; shorter where progress is shown live. */
const WAIT_S = 20;
const LIVE_WAIT_S = 2;
/** Pause between requests, for proxies that do not hold them. */
const PAUSE_MS = 200;

/** How a group is followed. */
interface FollowGroupOptions {
  readonly json?: true;
  /** Seconds without a response before following fails. */
  readonly patience: number;
}

/**
 * Follows a group to its end: changes of its counts go to standard error. With `json` the group is printed at its end.
 * @returns the exit code that says how it ended
 * @throws CliError
 */
export async function followGroup(
  session: Session,
  id: string,
  { json, patience }: FollowGroupOptions,
): Promise<ExitCode> {
  const { output } = session;
  const { live } = output;
  let shown = '';
  try {
    for (let wait = 0; ; wait = live.isLive ? LIVE_WAIT_S : WAIT_S) {
      // Without patience at first, so that a wrong URL fails at once.
      const group = await readGroup(session, id, wait, wait === 0 ? undefined : patience * 1000);
      if (group.state !== 'open') {
        live.clear();
        if (json) await output.json(group);
        else output.note(endText(group));
        return group.state === 'completed' ? EXIT.ok : EXIT.failed;
      }
      const waits = waitText(group.waiting_for);
      const detail = `${countsText(group)}${waits === undefined ? '' : `; waits for ${waits}`}`;
      live.set({ title: 'RUNNING', colour: 'cyan', progress: group.progress, detail });
      if (!json && !live.isLive && detail !== shown) output.note(`${group.progress} %: ${detail}`);
      shown = detail;
      await session.pause(PAUSE_MS);
    }
  } catch (error) {
    if (!(error instanceof CliError) || error.exitCode !== EXIT.interrupted) throw error;
    const hint = `"longshore group watch ${id}" follows it again`;
    throw new CliError(EXIT.interrupted, `left group ${id}, which goes on: ${hint}`);
  } finally {
    live.clear();
  }
}

function readGroup(
  session: Session,
  id: string,
  wait: number,
  patienceMs?: number,
): Promise<Schemas['Group']> {
  const params = { path: { id }, query: wait === 0 ? {} : { wait } };
  return session.ask((init) => session.client.GET('/groups/{id}', { params, ...init }), patienceMs);
}

function endText(group: Schemas['Group']): string {
  const failures = failuresText(group);
  const failed = failures === undefined ? '' : `; failed: ${failures}`;
  const reason = group.reason === null ? '' : `; ${group.reason}`;
  return `group ${group.id} is ${group.state}: ${countsText(group)}${failed}${reason}`;
}
