import type { ReactNode } from 'react';
import styles from './facts.module.css';

interface Props {
  readonly name: string;
  readonly className?: string | undefined;
  readonly children: ReactNode;
}

/** A name and a value in a list of facts (`dl`). */
export function Fact({ name, className, children }: Props) {
  return (
    <div className={className}>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}

/** Facts about the item of a page. */
export function FactBox({ children }: { readonly children: ReactNode }) {
  return <dl className={styles.box}>{children}</dl>;
}

/** A text on one line, cut where it is too long; the whole is in its tip. */
export function Line({ text, isCode = false }: { readonly text: string; readonly isCode?: boolean }) {
  return (
    <div className="truncate" title={text}>
      {isCode ? <code>{text}</code> : text}
    </div>
  );
}

/** The first row of a table. */
export function Headings({ names }: { readonly names: readonly string[] }) {
  return (
    <thead>
      <tr>
        {names.map((name) => (
          <th key={name} scope="col">
            {name}
          </th>
        ))}
      </tr>
    </thead>
  );
}
