import { useEffect, useState } from 'react';

/** The text as it was when it last stayed the same for so long. */
export function useSettled(text: string | undefined, ms: number): string | undefined {
  const [settled, setSettled] = useState(text);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(text), ms);
    return () => clearTimeout(timer);
  }, [text, ms]);
  return settled;
}
