/** A scripted language model: it answers by the last words of the user, and appends what happens to the file LM_LOG. */

const { appendFileSync } = require('node:fs');
const vscode = require('vscode');

const note = (text) => appendFileSync(process.env.LM_LOG, `${text}\n`);

exports.activate = (context) => {
  context.subscriptions.push(
    vscode.lm.registerLanguageModelChatProvider('test', {
      provideLanguageModelChatInformation: () => [
        {
          id: 'parrot',
          name: 'Parrot',
          family: 'parrot',
          version: '1',
          maxInputTokens: 64_000,
          maxOutputTokens: 4_000,
          capabilities: { toolCalling: true },
        },
      ],
      provideTokenCount: async () => 1,
      provideLanguageModelChatResponse: answer,
    }),
  );
};

async function answer(_model, messages, { tools }, progress, token) {
  note(`asked with ${messages.length} messages, read_file: ${tools.some(({ name }) => name === 'read_file')}`);
  const parts = messages.at(-1).content;
  const result = parts.find((part) => part instanceof vscode.LanguageModelToolResultPart);
  const text = parts.map((part) => part.value ?? '').join('');
  if (result) {
    const shop = result.content.some(({ value }) => value.includes('A small shop.'));
    progress.report(new vscode.LanguageModelTextPart(shop ? 'It is a shop.' : 'I do not know.'));
  } else if (text.includes('Count')) {
    progress.report(new vscode.LanguageModelTextPart('One two three '));
    await new Promise((stopped) => token.onCancellationRequested(stopped));
    note('stopped');
  } else if (text.includes('Fail')) {
    throw new Error('The parrot has used its quota of nuts.');
  } else {
    progress.report(new vscode.LanguageModelTextPart('I look. '));
    progress.report(new vscode.LanguageModelToolCallPart('call_1', 'read_file', { path: 'README.md' }));
  }
}
