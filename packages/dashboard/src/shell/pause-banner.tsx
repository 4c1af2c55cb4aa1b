import { useState } from 'react';
import { unwrap } from '../api/answers.js';
import { useApi, useLive, type Schemas } from '../api/use-api.js';
import { Button } from '../components/controls/button.js';
import { Icon } from '../components/controls/icon.js';
import { ConfirmDialog } from '../components/feedback/dialog.js';
import { showToast } from '../components/feedback/toasts.js';
import { Time } from '../components/values/time.js';
import { useSession } from '../session/session-context.js';
import styles from './pause-banner.module.css';

type Pause = Schemas['Pause'];

/** How often it asks whether runs are paused, in milliseconds. */
const EVERY_MS = 5000;

/** Says on every page which runs are paused, why, until when and by whom; admins can resume them. */
export function PauseBanner() {
  const api = useApi();
  const { may } = useSession();
  const [ended, setEnded] = useState<Pause>();
  const { data = [] } = useLive({
    queryKey: ['pauses'],
    queryFn: ({ signal }) => unwrap(api.GET('/pauses', { signal })),
    everyMs: EVERY_MS,
    enabled: may('client'),
  });
  const resume = async ({ name }: Pause): Promise<void> => {
    await unwrap(api.DELETE('/pauses/{name}', { params: { path: { name } } }));
    showToast('good', `The pause ${name} has ended.`);
  };
  return (
    <>
      {data.length > 0 && (
        <ul className={styles.list} aria-label="Pauses">
          {data.map((pause) => (
            <li key={pause.name} className={styles.pause}>
              <Icon name="pause" />
              <span className={styles.text}>
                <b>{pause.name}</b>: {describeRuns(pause.where)} {pause.where.all === true ? 'are' : 'is'}{' '}
                paused
                {pause.until !== null && (
                  <>
                    {' '}
                    until <Time at={pause.until} />
                  </>
                )}{' '}
                by {pause.updated_by.key_name}: {pause.reason}
              </span>
              {may() && (
                <Button size="small" aria-label={`Resume ${pause.name}`} onClick={() => setEnded(pause)}>
                  Resume
                </Button>
              )}
            </li>
          ))}
        </ul>
      )}
      <ConfirmDialog
        isOpen={ended !== undefined}
        onClose={() => setEnded(undefined)}
        title={`End the pause ${ended?.name ?? ''}?`}
        confirmLabel="Resume"
        refreshes="pauses"
        onConfirm={() => (ended === undefined ? Promise.resolve() : resume(ended))}
      >
        Its runs can be assigned again, unless another pause holds them.
      </ConfirmDialog>
    </>
  );
}

function describeRuns({ all, ...lists }: Pause['where']): string {
  if (all === true) return 'all runs';
  const conditions = Object.entries(lists).map(
    ([name, values]) => `${name.replace('_', ' ')} ${values.join(' or ')}`,
  );
  return `what has ${conditions.join(' and ')}`;
}
