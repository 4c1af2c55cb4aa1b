import { isJsonObject } from '@longshore/common/json/json-value';
import { clip } from '@longshore/common/json/text';

/** The texts of a body in which people write references. */
interface ReferringTexts {
  readonly command?: readonly string[] | null | undefined;
  readonly args?: readonly (string | object)[] | null | undefined;
  readonly env?: object | null | undefined;
  readonly secrets?: object | null | undefined;
  readonly files?: object | null | undefined;
}

/** Longest reference in a warning, in characters. */
const MAX_SHOWN = 128;

/** What definitions replace, or groups and schedules. `$${` is a literal `${`. */
const REFERENCE =
  /\$?\$\{(?:inputs\.[^}]{1,256}|run\.(?:id|name)|group\.id|array\.(?:index|size)|schedule\.(?:time|date|previous|next))\}/g;
/** A parameter of Argo, Airflow or Nomad, or of AWS Batch. */
const FOREIGN =
  /\{\{\s*(?:inputs|params|parameters|inputs\.parameters|workflow\.parameters|meta)\.([\w-]+)\s*\}\}|Ref::([\w-]+)/;
/** A variable of Kubernetes, which replaces it outside of a shell, too. */
const KUBERNETES = /\$\(([A-Za-z_][\w.-]*)\)/g;

/**
 * A text for each word, variable or file whose references stay as they are, with its place (`args.1`).
 * @param isReplaced whether it is a definition, which replaces references but in files
 */
export function referenceWarnings(body: ReferringTexts, isReplaced: boolean): string[] {
  const { env, secrets, files } = body;
  const variables = new Set([...Object.keys(env ?? {}), ...Object.keys(secrets ?? {})]);
  const words = (['command', 'args'] as const).flatMap((name) =>
    Array.from(body[name] ?? [], (word: unknown, at) => [`${name}.${at}`, word] as const),
  );
  const values = Object.entries<unknown>(Object(env)).map(([name, value]) => [`env.${name}`, value] as const);
  const contents = Object.entries<unknown>(Object(files)).map(
    ([path, file]) => [`files.${path}`, isJsonObject(file) ? file['content'] : undefined] as const,
  );
  const warn = (texts: readonly (readonly [place: string, text: unknown])[], isTemplate: boolean) =>
    texts.flatMap(([place, text]) => {
      const warning = typeof text === 'string' ? warningOf(text, isTemplate, variables) : undefined;
      return warning === undefined ? [] : [`${clip(place, MAX_SHOWN)}: ${warning}`];
    });
  return [...warn([...words, ...values], isReplaced), ...warn(contents, false)];
}

function warningOf(text: string, isTemplate: boolean, variables: ReadonlySet<string>): string | undefined {
  if (!isTemplate) {
    for (const [reference] of text.matchAll(REFERENCE)) {
      if (!reference.startsWith('$$'))
        return `${clip(reference, MAX_SHOWN)} is plain text here: only definitions replace it`;
    }
  }
  const [foreign, braces, colons] = FOREIGN.exec(text) ?? [];
  if (foreign !== undefined) {
    const right = `in a definition, \${inputs.${braces ?? colons}} is replaced`;
    return `${clip(foreign, MAX_SHOWN)} is plain text: ${clip(right, 2 * MAX_SHOWN)}`;
  }
  for (const [reference, name = ''] of text.matchAll(KUBERNETES)) {
    if (variables.has(name))
      return `${clip(reference, MAX_SHOWN)} is plain text: the variable of that name is replaced only by a shell, as "$${clip(name, MAX_SHOWN)}"`;
  }
  return undefined;
}
