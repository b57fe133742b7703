--- Pilotfish for Neovim: the public functions. See |pilotfish|.
local M = {}

--- Sets options; not needed for the defaults. See |pilotfish-options|.
---@param options? table
function M.setup(options)
  require('pilotfish.config').setup(options)
  require('pilotfish.commands').create()
end

--- Opens the chat and goes to the prompt.
function M.open() require('pilotfish.session') require('pilotfish.chat').focus_prompt(true) end

--- Sends a prompt: a text, or content blocks as PROTOCOL.md has them.
---@param prompt string|table[]
function M.prompt(prompt)
  local blocks = type(prompt) == 'string' and { { type = 'text', text = prompt } } or prompt
  require('pilotfish.session').send(blocks, 'queue')
end

--- What the agent is doing, for a statusline; empty while the server does not run.
---@return string
function M.statusline()
  local connection = package.loaded['pilotfish.connection']
  if not connection or not connection.client() then return '' end
  local chat, question = require('pilotfish.chat'), require('pilotfish.question')
  local session = chat.transcript.session
  local parts = { 'pilotfish' }
  if session then table.insert(parts, session.mode) end
  if question.count() > 0 then
    table.insert(parts, question.count() .. (question.count() == 1 and ' question' or ' questions'))
  elseif chat.activity() then
    table.insert(parts, chat.activity())
  end
  return table.concat(parts, ' ')
end

return M
