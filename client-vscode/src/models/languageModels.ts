/** Serves VS Code's language models (`vscode.lm`) to the server: reports which there are, and sends its requests to them. */

import * as vscode from 'vscode';
import { messageOf } from '../errors.ts';
import type {
  ModelChunkPart,
  ModelFailure,
  ModelMessage,
  ModelPart,
  ModelRequestParams,
  ModelRequestResult,
  OfferedModel,
} from '../protocol.gen.ts';
import type { Connection } from '../server/connection.ts';

/** The prefix of the models that VS Code serves. */
export const PREFIX = 'vscode:';

export class LanguageModels implements vscode.Disposable {
  private readonly changed = new vscode.EventEmitter<void>();
  private readonly subscription = vscode.lm.onDidChangeChatModels(() => void this.offer());
  /** the server knows the models of VS Code as they are now */
  readonly onDidOffer = this.changed.event;

  constructor(
    private readonly connection: Connection,
    private readonly log: vscode.LogOutputChannel,
  ) {
    connection.answer('pilotfish/model/request', (params, token) => this.ask(params, token));
  }

  /** Reports all models. Called when the server has started, and whenever they change. */
  async offer(): Promise<void> {
    try {
      const models = (await vscode.lm.selectChatModels()).map(offered);
      await this.connection.notify('pilotfish/model/offered', { models });
      this.changed.fire();
    } catch (error) {
      this.log.warn(`language models: ${messageOf(error)}`);
    }
  }

  dispose(): void {
    this.subscription.dispose();
    this.changed.dispose();
  }

  private async ask(params: ModelRequestParams, token: vscode.CancellationToken): Promise<ModelRequestResult> {
    try {
      const response = await (await find(params.model)).sendRequest(
        params.messages.map(message),
        {
          justification: vscode.l10n.t('Pilotfish answers your prompts with it.'),
          modelOptions: params.options,
          tools: [...params.tools],
        },
        token,
      );
      for await (const received of response.stream) {
        if (token.isCancellationRequested) break;
        const part = chunk(received);
        if (part) await this.connection.notify('pilotfish/model/chunk', { requestId: params.requestId, part });
      }
      return {};
    } catch (error) {
      if (!token.isCancellationRequested) this.log.warn(`${params.model}: ${messageOf(error)}`);
      return { error: failure(error) };
    }
  }
}

function offered(model: vscode.LanguageModelChat): OfferedModel {
  return {
    id: `${model.vendor}/${model.id}`,
    label: model.name || model.id,
    ...(model.maxInputTokens > 0 && { contextWindow: model.maxInputTokens }),
    ...(!dataPart && { images: false }),
  };
}

async function find(name: string): Promise<vscode.LanguageModelChat> {
  const slash = name.indexOf('/');
  const [model] = await vscode.lm.selectChatModels({ vendor: name.slice(0, slash), id: name.slice(slash + 1) });
  if (!model) throw vscode.LanguageModelError.NotFound(vscode.l10n.t('No extension provides it.'));
  return model;
}

/** VS Code's API has no role for instructions: they are sent as a message of the user. */
function message({ role, parts }: ModelMessage): vscode.LanguageModelChatMessage {
  const content = parts.map(inputPart) as vscode.LanguageModelTextPart[]; // the newer kinds of parts are not in the types
  return role === 'assistant'
    ? vscode.LanguageModelChatMessage.Assistant(content)
    : vscode.LanguageModelChatMessage.User(content);
}

function inputPart(part: ModelPart): unknown {
  switch (part.type) {
    case 'text':
      return new vscode.LanguageModelTextPart(part.text);
    case 'tool_call':
      return new vscode.LanguageModelToolCallPart(part.id, part.name, part.input);
    case 'tool_result':
      return new vscode.LanguageModelToolResultPart(part.id, [new vscode.LanguageModelTextPart(part.text)]);
    case 'image':
      return dataPart
        ? dataPart.image(Buffer.from(part.data, 'base64'), part.mimeType)
        : new vscode.LanguageModelTextPart(vscode.l10n.t('[This version of VS Code cannot send images.]'));
    default:
      return part satisfies never;
  }
}

/** `LanguageModelDataPart`, which older versions of VS Code do not have. */
const dataPart = (vscode as { LanguageModelDataPart?: { image(data: Uint8Array, mime: string): unknown } })
  .LanguageModelDataPart;

/** What the model sent; undefined for kinds that the server does not know. */
function chunk(received: unknown): ModelChunkPart | undefined {
  if (received instanceof vscode.LanguageModelTextPart)
    return received.value === '' ? undefined : { type: 'text', text: received.value };
  if (received instanceof vscode.LanguageModelToolCallPart)
    return { type: 'tool_call', id: received.callId, name: received.name, input: { ...received.input } };
  return undefined;
}

/** Errors by their code, and by the names that Copilot gives them. */
const KINDS: Readonly<Record<string, ModelFailure['kind']>> = {
  NoPermissions: 'permission',
  NotFound: 'not_found',
  Blocked: 'blocked',
  ChatQuotaExceeded: 'quota',
  ChatRateLimited: 'rate_limit',
};

function failure(error: unknown): ModelFailure {
  const words = messageOf(error);
  const cause = error instanceof Error && error.cause ? messageOf(error.cause) : '';
  const message = [words, !words.includes(cause) && cause].filter(Boolean).join(': ');
  const code = error instanceof vscode.LanguageModelError ? error.code : '';
  const name = error instanceof Error ? error.name : '';
  return { kind: KINDS[code] ?? KINDS[name] ?? kindByWords(message), message };
}

function kindByWords(message: string): ModelFailure['kind'] {
  if (/quota|premium requests/i.test(message)) return 'quota';
  return /rate.?limit|too many requests/i.test(message) ? 'rate_limit' : 'other';
}
