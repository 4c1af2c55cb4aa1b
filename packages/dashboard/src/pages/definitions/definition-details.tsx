import { describeGrowth, describeNeeds } from '@longshore/client/needs';
import { Link } from 'wouter';
import type { Schemas } from '../../api/use-api.js';
import { CopyButton } from '../../components/controls/copy-button.js';
import { Fact, Headings } from '../../components/values/facts.js';
import { JsonTree } from '../../components/values/json-tree.js';
import { Time } from '../../components/values/time.js';
import { formatCount, formatDuration, formatMb } from '../../lib/format.js';
import { jsonChanges, type JsonChange } from '../../lib/json-changes.js';
import { containerOf, requestedOf } from '../../run-form/run-fields.js';
import styles from './definition-page.module.css';
import { commandLine, limitsOf } from './run-inputs.js';

/** Everything that a version says. */
export function DefinitionDetails({ definition }: { readonly definition: Definition }) {
  const container = containerOf({ ...definition, command: null, args: null });
  return (
    <div className={styles.details}>
      <Facts definition={definition} />
      {container !== undefined && (
        <section>
          <h2>Container</h2>
          <JsonTree label="container" value={container} />
        </section>
      )}
      <section>
        <h2>Inputs</h2>
        <Inputs definition={definition} />
      </section>
      <section>
        <h2>Outputs</h2>
        <Outputs definition={definition} />
      </section>
    </div>
  );
}

function Facts({ definition }: { readonly definition: Definition }) {
  const { image, constraints, retry_policy: retries, timeouts, event_delivery: delivery } = definition;
  const needs = describeNeeds(constraints, formatMb);
  const command = commandLine(definition, definition.input_specs);
  const attempts = retries.max_attempts;
  return (
    <dl className={styles.facts}>
      <Fact name="Image" className={styles.wide}>
        <code>{image}</code>
        <CopyButton what="image" text={image} />
      </Fact>
      {(definition.command !== null || definition.args !== null) && (
        <Fact name="Command" className={styles.wide}>
          <code>{command}</code>
          <CopyButton what="command" text={command} />
        </Fact>
      )}
      <Fact name="Needs">
        {needs.length === 0 ? <span className="muted">nothing in particular</span> : needs.join(', ')}
      </Fact>
      <Fact name="Attempts">
        {attempts === 1 ? '1, no automatic retry' : `up to ${attempts}`}
        {retries.backoff_s !== undefined &&
          retries.backoff_s > 0 &&
          `, back-off ${formatDuration(retries.backoff_s * 1000)}`}
        {retries.retry_on && `, after ${retries.retry_on.join(', ') || 'no failure'}`}
        {retries.grow && `; ${describeGrowth(retries.grow, formatMb)}`}
      </Fact>
      {definition.selector.length > 0 && <Fact name="Selector">{definition.selector.join(', ')}</Fact>}
      {definition.concurrency !== null && (
        <Fact name="Concurrency">
          {definition.concurrency.key}, at most {formatCount(definition.concurrency.limit)}
        </Fact>
      )}
      <Fact name="Time budgets">
        {timeouts === undefined ? (
          <span className="muted">none</span>
        ) : (
          [
            timeouts.start_within_s !== undefined &&
              `start within ${formatDuration(timeouts.start_within_s * 1000)}`,
            timeouts.attempt_s !== undefined && `attempt ${formatDuration(timeouts.attempt_s * 1000)}`,
          ]
            .filter((budget) => budget !== false)
            .join(', ')
        )}
      </Fact>
      <Fact name="Events go to">
        {delivery === null ? (
          <span className="muted">no topic named</span>
        ) : (
          <Link href={`/feed?topic=${encodeURIComponent(delivery.topic)}`}>{delivery.topic}</Link>
        )}
      </Fact>
      {delivery?.attributes !== undefined && (
        <Fact name="Attributes of events">
          {Object.entries(delivery.attributes)
            .map(([name, value]) => `${name}: ${value}`)
            .join(', ')}
        </Fact>
      )}
      <Fact name="Created">
        <Time at={definition.createdAt} />
        {definition.created_by && ` by ${definition.created_by.key_name}`}
      </Fact>
      <Fact name="Updated">
        <Time at={definition.updatedAt} />
        {definition.updated_by && ` by ${definition.updated_by.key_name}`}
      </Fact>
    </dl>
  );
}

function Inputs({ definition: { input_specs: specs } }: { readonly definition: Definition }) {
  const entries = Object.entries(specs);
  if (entries.length === 0) return <p className="muted">None declared: all inputs are accepted.</p>;
  return (
    <div className={styles.scroll}>
      <table className={styles.table} aria-label="Inputs">
        <Headings names={['Name', 'Type', 'Required', 'Default', 'Description']} />
        <tbody>
          {entries.map(([name, spec]) => (
            <tr key={name}>
              <th scope="row">{name}</th>
              <td>{[spec.type, limitsOf(spec)].filter((text) => text !== '').join(', ')}</td>
              <td>{spec.required ? 'yes' : <span className="muted">no</span>}</td>
              <td>
                {spec.default === null ? (
                  <span className="muted">none</span>
                ) : (
                  <code>{JSON.stringify(spec.default)}</code>
                )}
              </td>
              <td>{spec.description}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Outputs({ definition: { output_specs: specs } }: { readonly definition: Definition }) {
  const entries = Object.entries(specs);
  if (entries.length === 0) return <p className="muted">None are declared.</p>;
  return (
    <div className={styles.scroll}>
      <table className={styles.table} aria-label="Outputs">
        <Headings names={['Name', 'Type']} />
        <tbody>
          {entries.map(([name, { type }]) => (
            <tr key={name}>
              <th scope="row">{name}</th>
              <td>{type}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** A version of a definition as the API has it. */
export type Definition = Schemas['OpDefinition'];

/** What a version says apart from which one it is: what one would send to make another like it. */
function contentOf(
  definition: Definition,
): Omit<Definition, 'applied' | 'createdAt' | 'updatedAt' | 'created_by' | 'updated_by'> {
  const {
    applied: _applied,
    createdAt: _created,
    updatedAt: _updated,
    created_by: _by,
    updated_by: _last,
    ...content
  } = definition;
  return content;
}

/** What changed from one version to another. */
export function changesBetween(before: Definition, after: Definition): JsonChange[] {
  return jsonChanges({ ...contentOf(before), version: '' }, { ...contentOf(after), version: '' });
}

/** A version as the body of a request that stores it; what the service does not take stays out. */
export function toBody(definition: Definition): object {
  const { constraints, event_delivery: delivery, ...content } = contentOf(definition);
  const needs = requestedOf(constraints);
  return { ...content, constraints: needs, ...(delivery === null ? {} : { event_delivery: delivery }) };
}
