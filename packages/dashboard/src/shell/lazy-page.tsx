import { useEffect, useState, type ComponentType } from 'react';

interface Failure {
  readonly error: unknown;
}

/**
 * A page that is loaded when it is first shown. Not React's `lazy`: that keeps its fallback in sight for 300 ms at least,
 * and only then does the page ask for its data.
 */
export function lazyPage(load: () => Promise<{ readonly default: ComponentType }>): ComponentType {
  let known: ComponentType | undefined;
  return function LazyPage() {
    const [Page, setPage] = useState(() => known);
    const [failure, setFailure] = useState<Failure>();
    useEffect(() => {
      const start = async (): Promise<void> => {
        try {
          const { default: loaded } = await load();
          known = loaded;
          setPage(() => loaded);
        } catch (error) {
          setFailure({ error });
        }
      };
      if (known === undefined) void start();
    }, []);
    // For the boundary around the page.
    if (failure !== undefined) throw failure.error;
    return Page === undefined ? <div aria-busy="true" /> : <Page />;
  };
}
