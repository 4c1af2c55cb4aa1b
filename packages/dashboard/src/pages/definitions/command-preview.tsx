import { shellWords } from '@longshore/common/shell-words';
import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { unwrap } from '../../api/unwrap.js';
import { useApi, type Schemas } from '../../api/use-api.js';
import { useSettled } from '../../hooks/use-settled.js';
import type { Definition } from './definition-view.js';
import styles from './start-run-form.module.css';

/** How long nothing is entered before the service is asked. */
const PAUSE_MS = 400;

interface Props {
  readonly definition: Definition;
  /** What would be sent; undefined while it cannot be. */
  readonly body: Schemas['DefinitionRunCreate'] | undefined;
}

/** What a run with these inputs would execute, if the definition says that. */
export function CommandPreview({ definition, body }: Props) {
  const { id: name, version, command, args, env } = definition;
  const api = useApi();
  const isTemplate = command !== null || args !== null || Object.keys(env).length > 0;
  const asked = useSettled(isTemplate && body !== undefined ? JSON.stringify(body) : undefined, PAUSE_MS);
  const { data: run } = useQuery({
    queryKey: ['dry-run', name, version, asked],
    queryFn: ({ signal }) => {
      const params = { path: { name }, query: { version, dry_run: true } };
      const sent: Schemas['DefinitionRunCreate'] = JSON.parse(asked ?? '{}');
      return unwrap(api.POST('/definitions/{name}/runs', { params, body: sent, signal }));
    },
    enabled: asked !== undefined,
    placeholderData: keepPreviousData,
  });
  if (asked === undefined || run === undefined) return null;
  return (
    <section>
      <h2>Command</h2>
      <pre className={styles.command} aria-label="Command">
        {commandText(run)}
      </pre>
    </section>
  );
}

/** The variables and the command line, as a shell would read them. */
function commandText({ image, env, command, args }: Schemas['OpRun']): string {
  const variables = Object.entries(env).map(([name, value]) => shellWords([`${name}=${value}`]));
  const start = command === null ? `(entrypoint of ${image})` : shellWords(command);
  const rest = args === null && command === null ? '(arguments of the image)' : shellWords(args ?? []);
  return [...variables, `${start} ${rest}`.trimEnd()].join('\n');
}
