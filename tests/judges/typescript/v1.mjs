// The TypeScript client that most hosts embed: @modelcontextprotocol/sdk, handshake era.
import { answer, judge, main, observe, spawned } from "./observe.mjs";

const { Client } = judge("@modelcontextprotocol/sdk/client/index.js");
const { SSEClientTransport } = judge("@modelcontextprotocol/sdk/client/sse.js");
const { StdioClientTransport } = judge("@modelcontextprotocol/sdk/client/stdio.js");
const { StreamableHTTPClientTransport } = judge("@modelcontextprotocol/sdk/client/streamableHttp.js");
const { ElicitRequestSchema, ResourceUpdatedNotificationSchema } = judge("@modelcontextprotocol/sdk/types.js");

const transports = {
  stdio: (target) => new StdioClientTransport(spawned(target)),
  http: (target) => new StreamableHTTPClientTransport(new URL(target)),
  sse: (target) => new SSEClientTransport(new URL(target)),
};

await main(async (transport, target) => {
  const client = new Client({ name: "judge", version: "1" }, { capabilities: { elicitation: {} } });
  client.setRequestHandler(ElicitRequestSchema, async (request) => answer(request));
  const changed = new Promise((resolve) =>
    client.setNotificationHandler(ResourceUpdatedNotificationSchema, (note) => resolve(note.params.uri)),
  );
  const connection = transports[transport](target);
  await client.connect(connection);
  client.options = (options) => [undefined, options];
  // stdio and the deprecated stream have no place for the version outside the handshake.
  client.version = () => connection.protocolVersion ?? null;
  client.follow = (uri) => client.subscribeResource({ uri });
  return observe(client, changed);
});
