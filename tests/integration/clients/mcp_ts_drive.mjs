// Drives one of the two TypeScript clients through the steps of its third argument.
//
// `mcp_ts_drive.mjs PACKAGE MODE STEPS URL`, or with `COMMAND ...` for the URL. PACKAGE is
// `@modelcontextprotocol/sdk` (1.x) or `@modelcontextprotocol/client` (2.x), resolved from
// MCP_MODULES; MODE is `legacy`, `auto`, or a protocol version (2.x). Prints what each step gave.

import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [name, mode, steps, ...target] = process.argv.slice(2);
const require = createRequire(process.env.MCP_MODULES + "/");
const load = (path) => import(pathToFileURL(require.resolve(path)).href);
const old = name === "@modelcontextprotocol/sdk";

const main = await load(old ? `${name}/client/index.js` : name);
const stdio = await load(old ? `${name}/client/stdio.js` : `${name}/stdio`);
const http = old ? await load(`${name}/client/streamableHttp.js`) : main;

const negotiation = mode === "legacy" || mode === "auto" ? mode : { pin: mode };
const client = new main.Client(
  { name: "driver", version: "1" },
  {
    capabilities: { elicitation: { form: {} }, sampling: {} },
    ...(old ? {} : { versionNegotiation: { mode: negotiation } }),
  },
);
const answers = {
  "elicitation/create": { action: "accept", content: { sure: true } },
  "sampling/createMessage": {
    role: "assistant",
    content: { type: "text", text: "Tea, in short." },
    model: "scripted",
  },
};
const schemas = old ? await load(`${name}/types.js`) : {};
for (const [method, schema] of [
  ["elicitation/create", schemas.ElicitRequestSchema],
  ["sampling/createMessage", schemas.CreateMessageRequestSchema],
]) {
  client.setRequestHandler(old ? schema : method, async () => answers[method]);
}

const headers = JSON.parse(process.env.MCP_HEADERS ?? "{}");
const transport = target[0].startsWith("http")
  ? new http.StreamableHTTPClientTransport(new URL(target[0]), { requestInit: { headers } })
  : new stdio.StdioClientTransport({
      command: target[0],
      args: target.slice(1),
      env: process.env,
    });

const run = {
  tools: async () => (await client.listTools()).tools.map((one) => one.name),
  resources: async () => (await client.listResources()).resources.map((one) => one.uri),
  prompts: async () => (await client.listPrompts()).prompts.map((one) => one.name),
  resource: (uri) => client.readResource({ uri }),
  prompt: (called, given) => client.getPrompt({ name: called, arguments: given }),
  call: (called, given) => {
    const options = { onprogress: () => {} };
    const params = { name: called, arguments: given };
    return old ? client.callTool(params, undefined, options) : client.callTool(params, options);
  },
};

await client.connect(transport);
const seen = [];
for (const [kind, called, given] of JSON.parse(steps)) seen.push(await run[kind](called, given));
await client.close();
console.log(JSON.stringify({ seen }));
