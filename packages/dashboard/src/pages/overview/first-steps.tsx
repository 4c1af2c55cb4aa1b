import { CopyButton } from '../../components/controls/copy-button.js';
import { SERVICE_URL } from '../../lib/addresses.js';
import { useSession } from '../../session/session-context.js';
import styles from './first-steps.module.css';

/** Shown while there is neither a run nor a worker: how to get both. */
export function FirstSteps() {
  const { may } = useSession();
  const worker = `SERVICE_URL=${SERVICE_URL} SERVICE_API_KEY="$KEY" npm run worker`;
  const run = `curl -sS ${SERVICE_URL}/runs -H "X-API-Key: $KEY" -H 'Content-Type: application/json' \\
  -d '{"image": "busybox", "inputs": {"text": "hello"}}'`;
  return (
    <section className={styles.steps}>
      <h2>Nothing here yet: start a worker and create a run</h2>
      <p className="muted">This page updates itself.</p>
      <ol>
        <li>
          <h3>Take a key</h3>
          <p>
            {may()
              ? 'The admin key that the service wrote at its first start will do for a try:'
              : 'Your key for runs; for the worker one with the scope worker:'}
          </p>
          <Command what="command" text={may() ? 'export KEY=$(cat .data/admin-key)' : 'export KEY=…'} />
        </li>
        <li>
          <h3>Start a worker, in the folder of the project</h3>
          <p>
            It needs a container engine such as Docker, and shows up under Workers with its first heartbeat.
          </p>
          <Command what="command that starts a worker" text={worker} />
        </li>
        <li>
          <h3>Create a run</h3>
          <p>The worker claims it within milliseconds.</p>
          <Command what="command that creates a run" text={run} />
        </li>
      </ol>
    </section>
  );
}

function Command({ what, text }: { readonly what: string; readonly text: string }) {
  return (
    <div className={styles.command}>
      {/* oxlint-disable-next-line jsx-a11y/no-noninteractive-tabindex -- what can be scrolled has to be reached by keyboard */}
      <pre tabIndex={0}>{text}</pre>
      <CopyButton what={what} text={text} />
    </div>
  );
}
