// A client made with the SDK for TypeScript: lines with calls in, lines with results out.
//
//   node mcp-client.mjs ERA stdio COMMAND [ARGUMENT...]
//   node mcp-client.mjs ERA http URL TOKEN
//
// ERA is `sessions` (2025-11-25), `stateless` (2026-07-28) or `auto`. A line in is `{"tool", "arguments", "answers"}`;
// `answers` are what the person says to questions. A line out is `{"result", "asked"}` or `{"failure"}`. The first
// line out says what was agreed on and which tools there are.
import { createInterface } from 'node:readline';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';

const [era, way, ...rest] = process.argv.slice(2);
const mode = { sessions: 'legacy', stateless: { pin: '2026-07-28' }, auto: 'auto' }[era];
const client = new Client(
  { name: 'piton-peer', version: '1.0.0' },
  { capabilities: { elicitation: { form: {} }, sampling: {} }, versionNegotiation: { mode } },
);
let answers = [];
let asked = [];
client.setRequestHandler('elicitation/create', (request) => {
  asked.push(request.params.message);
  return answers.shift() ?? { action: 'cancel' };
});
// The model behind the client: it always writes the same.
client.setRequestHandler('sampling/createMessage', () => ({
  role: 'assistant',
  model: 'peer',
  content: { type: 'text', text: 'docs: written by the model' },
}));
const transport =
  way === 'stdio'
    ? new StdioClientTransport({ command: rest[0], args: rest.slice(1), env: process.env, cwd: process.cwd() })
    : new StreamableHTTPClientTransport(new URL(rest[0]), {
        requestInit: { headers: { Authorization: `Bearer ${rest[1]}` } },
      });

function say(value) {
  process.stdout.write(`${JSON.stringify(value)}\n`);
}

try {
  await client.connect(transport);
  const { tools } = await client.listTools();
  say({
    version: client.getNegotiatedProtocolVersion?.() ?? transport.protocolVersion ?? null,
    server: client.getServerVersion()?.name,
    tools: tools.map((tool) => tool.name),
  });
} catch (error) {
  say({ failure: String(error?.stack ?? error) });
  process.exit(1);
}
for await (const line of createInterface({ input: process.stdin })) {
  const call = JSON.parse(line);
  answers = call.answers ?? [];
  asked = [];
  try {
    const result = await client.callTool({ name: call.tool, arguments: call.arguments });
    say({ result, asked });
  } catch (error) {
    say({ failure: String(error?.stack ?? error) });
  }
}
await client.close();
