import type { ReactNode } from 'react';

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
