import { parser } from '@prometheus-io/lezer-promql';

/** A condition on a label. */
export interface Matcher {
  readonly label: string;
  readonly operator: string;
  readonly value: string;
}

/** The series that an expression asks for. */
export interface Selector {
  readonly metric: string;
  readonly matchers: readonly Matcher[];
}

/** What an expression is made of. */
export interface Expression {
  readonly selectors: readonly Selector[];
  /** Labels that it groups or joins by. */
  readonly groupings: readonly string[];
}

/** Reads an expression of PromQL. @throws Error when it is none */
export function readExpression(text: string): Expression {
  const selectors: { metric: string; matchers: Matcher[] }[] = [];
  const groupings: string[] = [];
  parser.parse(text).iterate({
    enter: ({ type, name, from, to, node }) => {
      if (type.isError) throw new Error(`no PromQL at character ${from}: ${text}`);
      const part = text.slice(from, to);
      const parent = node.parent?.name;
      if (name === 'Identifier' && parent === 'VectorSelector')
        selectors.push({ metric: part, matchers: [] });
      if (name === 'LabelName' && parent === 'GroupingLabels') groupings.push(part);
      if (name === 'UnquotedLabelMatcher') {
        const [, label = '', operator = '', value = ''] = /^(\w+)\s*(=~|!~|!=|=)\s*"(.*)"$/s.exec(part) ?? [];
        selectors.at(-1)?.matchers.push({ label, operator, value });
      }
    },
  });
  return { selectors, groupings };
}
