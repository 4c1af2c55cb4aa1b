import { Button } from '../../components/controls/button.js';
import { CopyButton } from '../../components/controls/copy-button.js';
import { EmptyState } from '../../components/feedback/empty-state.js';
import { SERVICE_URL } from '../../lib/addresses.js';
import styles from './definitions-page.module.css';

/** Says what definitions are for, and how to make the first one. */
export function NoDefinitions({ onCreate }: { readonly onCreate: () => void }) {
  const example = [
    `curl ${SERVICE_URL}/definitions \\`,
    `  -H "X-API-Key: $SERVICE_API_KEY" -H "Content-Type: application/json" \\`,
    `  -d '{"id": "word-count", "version": "1.0.0", "image": "longshore/word-count",`,
    `       "input_specs": {"text": {"type": "string", "required": true}}}'`,
  ].join('\n');
  return (
    <EmptyState
      icon="definitions"
      title="There is no definition yet"
      action={<Button onClick={onCreate}>New definition</Button>}
    >
      A definition is a template for runs: an image, the inputs it takes, what it needs. Store one:
      <div className={styles.example}>
        <pre>{example}</pre>
        <CopyButton what="command" text={example} />
      </div>
    </EmptyState>
  );
}
