// A client on vscode-jsonrpc, the layer VS Code itself uses. Drives the real server through a stream, an approval, an
// edit and a cancel, and prints what it saw as JSON. Shares no code with the server or its tests.
import { spawn } from "node:child_process";
import { pathToFileURL } from "node:url";
import { join } from "node:path";
import * as rpc from "vscode-jsonrpc/node";

const [folder, ...command] = process.argv.slice(2);
const server = spawn(command[0], command.slice(1), { stdio: ["pipe", "pipe", "inherit"] });
const connection = rpc.createMessageConnection(
  new rpc.StreamMessageReader(server.stdout),
  new rpc.StreamMessageWriter(server.stdin),
);
const exited = new Promise((done) => server.on("exit", (code) => done(code)));
const seen = { updates: {}, approvals: [], resolved: [], edits: 0, errors: [] };

// One document, as an editor has it: not saved, and edited by the server.
const uri = pathToFileURL(join(folder, "greeting.txt")).toString();
const document = { version: 1, text: "Helo wörld 😀, said the unsaved buffer\n" };
const offset = ({ line, character }) => {
  const lines = document.text.split("\n");
  return lines.slice(0, line).reduce((sum, one) => sum + one.length + 1, 0) + character;
};

connection.onNotification("pilotfish/session/update", ({ sessionId, seq, update }) => {
  (seen.updates[sessionId] ??= []).push({ seq, ...update });
});
connection.onNotification("pilotfish/approval/resolved", (params) => seen.resolved.push(params.optionId));
connection.onRequest("pilotfish/approval/request", (params) => {
  seen.approvals.push(params.preview);
  return { optionId: "allow_once" };
});
connection.onRequest("workspace/applyEdit", ({ edit }) => {
  for (const { textDocument, edits } of edit.documentChanges) {
    if (textDocument.uri !== uri || textDocument.version !== document.version) return { applied: false };
    for (const { range, newText } of edits.toReversed?.() ?? [...edits].reverse()) {
      const [start, end] = [offset(range.start), offset(range.end)];
      document.text = document.text.slice(0, start) + newText + document.text.slice(end);
      document.version += 1;
      connection.sendNotification("textDocument/didChange", {
        textDocument: { uri, version: document.version },
        contentChanges: [{ range, text: newText }],
      });
    }
  }
  seen.edits += 1;
  return { applied: true };
});
connection.onError(([error]) => seen.errors.push(String(error)));
connection.listen();

const initialized = await connection.sendRequest("initialize", {
  processId: process.pid,
  rootUri: pathToFileURL(folder).toString(),
  capabilities: { workspace: { applyEdit: true } },
  initializationOptions: { pilotfish: { protocolVersion: 1, client: { approvals: true }, trusted: true } },
});
connection.sendNotification("initialized", {});
connection.sendNotification("textDocument/didOpen", {
  textDocument: { uri, languageId: "plaintext", version: document.version, text: document.text },
});

const ask = (text, token) => async (sessionId) => {
  const prompt = [{ type: "text", text }];
  const params = { sessionId, prompt };
  return token
    ? connection.sendRequest("pilotfish/session/prompt", params, token)
    : connection.sendRequest("pilotfish/session/prompt", params);
};
const { session } = await connection.sendRequest("pilotfish/session/new", {});
const edited = await ask("#edit# please")(session.id);

const source = new rpc.CancellationTokenSource();
const { session: second } = await connection.sendRequest("pilotfish/session/new", {});
const running = ask("#slow# please", source.token)(second.id);
while (!(seen.updates[second.id] ?? []).some(({ kind }) => kind === "agent_message_chunk")) {
  await new Promise((again) => setTimeout(again, 10));
}
source.cancel();
const cancelled = await running;

let refused = null;
await connection.sendRequest("pilotfish/session/load", { sesionId: "x" }).catch(({ code, data }) => {
  refused = { code, data };
});
const loaded = await connection.sendRequest("pilotfish/session/load", { sessionId: session.id });
await connection.sendRequest("shutdown");
await connection.sendNotification("exit");
const code = await exited;
const updates = seen.updates[session.id];
console.log(
  JSON.stringify({
    version: initialized.capabilities.experimental.pilotfish.protocolVersion,
    edited: edited.stopReason,
    cancelled: cancelled.stopReason,
    text: document.text,
    edits: seen.edits,
    approvals: seen.approvals.map(({ kind, files }) => [kind, files[0].before, files[0].after]),
    resolved: seen.resolved,
    inOrder: updates.every(({ seq }, index) => seq === index + 1),
    said: updates.filter(({ kind }) => kind === "agent_message_chunk").map(({ text }) => text).join(""),
    kept: loaded.items.filter(({ kind }) => kind === "message").map(({ text }) => text).join(""),
    refused,
    errors: seen.errors,
    code,
  }),
);
