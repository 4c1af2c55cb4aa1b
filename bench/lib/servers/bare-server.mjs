// A bare node:http server: reads a body, parses it, and answers the same bytes every time. It is told by one message
// what to answer, `{ status, type, text }`, and answers with its port.
import { once } from 'node:events';
import { createServer } from 'node:http';

const [{ status, type, text }] = await once(process, 'message');
const headers = { 'Content-Type': type, 'Content-Length': Buffer.byteLength(text) };

const server = createServer((request, response) => {
  const chunks = [];
  request.on('data', (chunk) => chunks.push(chunk));
  request.on('end', () => {
    if (chunks.length > 0) JSON.parse(Buffer.concat(chunks).toString());
    response.writeHead(status, headers);
    response.end(text);
  });
});
server.listen(0, '127.0.0.1', () => process.send(server.address().port));
process.once('disconnect', () => process.exit(0));
