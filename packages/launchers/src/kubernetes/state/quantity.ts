const FACTORS: Readonly<Record<string, number>> = {
  n: 1e-9,
  u: 1e-6,
  m: 1e-3,
  '': 1,
  k: 1e3,
  M: 1e6,
  G: 1e9,
  T: 1e12,
  P: 1e15,
  E: 1e18,
  Ki: 2 ** 10,
  Mi: 2 ** 20,
  Gi: 2 ** 30,
  Ti: 2 ** 40,
  Pi: 2 ** 50,
  Ei: 2 ** 60,
};

/** A quantity such as `500m`, `2`, `1e3` or `64Mi` as a number; 0 when there is none or it cannot be read. */
export function parseQuantity(text: string | undefined): number {
  const [, digits = '', suffix = ''] = /^([+-]?[\d.]+(?:[eE][+-]?\d+)?)([A-Za-z]*)$/.exec(text ?? '') ?? [];
  const value = Number(digits) * (FACTORS[suffix] ?? Number.NaN);
  return Number.isFinite(value) ? value : 0;
}
