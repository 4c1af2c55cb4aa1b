import { failureRate, formatRate, SERIES, type Minute } from './minutes.js';

/** The figures of the chart for those who cannot see it; the newest minute first, minutes in which nothing happened left out. */
export function MinutesTable({ minutes }: { readonly minutes: readonly Minute[] }) {
  const rows = minutes.filter((minute) => SERIES.some((series) => minute[series] > 0)).toReversed();
  return (
    <div className="visually-hidden">
      <table>
        <caption>Runs by minute over the last hour, without minutes in which nothing happened</caption>
        <thead>
          <tr>
            <th scope="col">Minute</th>
            {SERIES.map((series) => (
              <th key={series} scope="col">
                {series}
              </th>
            ))}
            <th scope="col">failure rate</th>
          </tr>
        </thead>
        <tbody>
          {rows.map((minute) => (
            <tr key={minute.t}>
              <th scope="row">{new Date(minute.t).toLocaleTimeString('en-GB')}</th>
              {SERIES.map((series) => (
                <td key={series}>{minute[series]}</td>
              ))}
              <td>{formatRate(failureRate(minute))}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
