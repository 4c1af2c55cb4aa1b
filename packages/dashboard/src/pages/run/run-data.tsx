import { JsonTree } from '../../components/values/json-tree.js';
import styles from './run-data.module.css';

interface Props {
  readonly inputs: Readonly<Record<string, unknown>>;
  readonly outputs: Readonly<Record<string, unknown>>;
}

/** What a run was given and what it gave back. */
export function RunData({ inputs, outputs }: Props) {
  return (
    <div className={styles.pair}>
      <section>
        <h3>Inputs</h3>
        <JsonTree label="inputs" value={inputs} maxHeight={560} />
      </section>
      <section>
        <h3>Outputs</h3>
        <JsonTree label="outputs" value={outputs} maxHeight={560} />
      </section>
    </div>
  );
}
