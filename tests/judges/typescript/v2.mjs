// The newer TypeScript client, @modelcontextprotocol/client, in the era it is told to speak.
import { answer, judge, main, observe, spawned } from "./observe.mjs";

const { Client, StreamableHTTPClientTransport } = judge("@modelcontextprotocol/client");
const { StdioClientTransport } = judge("@modelcontextprotocol/client/stdio");

const transports = {
  stdio: (target) => new StdioClientTransport(spawned(target)),
  http: (target) => new StreamableHTTPClientTransport(new URL(target)),
};

await main(async (transport, target, era) => {
  const mode = era === "modern" ? { pin: "2026-07-28" } : "legacy";
  const client = new Client(
    { name: "judge", version: "1" },
    { capabilities: { elicitation: {} }, versionNegotiation: { mode } },
  );
  client.setRequestHandler("elicitation/create", async (request) => answer(request));
  const changed = new Promise((resolve) =>
    client.setNotificationHandler("notifications/resources/updated", (note) => resolve(note.params.uri)),
  );
  await client.connect(transports[transport](target));
  client.options = (options) => [options];
  client.version = () => client.getNegotiatedProtocolVersion();
  client.follow = (uri) =>
    era === "modern" ? client.listen({ resourceSubscriptions: [uri] }) : client.subscribeResource({ uri });
  return observe(client, changed);
});
