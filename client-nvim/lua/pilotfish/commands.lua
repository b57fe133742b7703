--- The user commands. Modules are loaded when a command runs.
local M = {}

local function session() return require('pilotfish.session') end

--- A content block for the lines of a command's range: the exact selection where the range is one.
local function selection(command)
  local connection, positions = require('pilotfish.connection'), require('pilotfish.positions')
  local buf = vim.api.nvim_get_current_buf()
  local first, last, columns = command.line1, command.line2, nil
  local from, to = vim.fn.getpos("'<"), vim.fn.getpos("'>")
  if vim.fn.visualmode() == 'v' and from[2] == first and to[2] == last then
    local line = vim.api.nvim_buf_get_lines(buf, last - 1, last, false)[1] or ''
    local ending = math.min(to[3], #line) -- the first byte of the last character, from 1
    local width = ending > 0 and #vim.fn.matchstr(line:sub(ending), '.') or 0
    columns = { from[3] - 1, math.max(ending - 1 + width, 0) }
  end
  if not connection.is_document(buf) then
    local text = table.concat(vim.api.nvim_buf_get_lines(buf, first - 1, last, false), '\n')
    return { type = 'text', text = table.concat(require('pilotfish.render').fence(text), '\n') }
  end
  return {
    type = 'resource',
    uri = vim.uri_from_bufnr(buf),
    range = positions.range(buf, first, last, connection.encoding(), columns),
  }
end

--- Edits at the range of a command or at the cursor; with a bang, the edit there is made again.
local function edit(command)
  local connection, positions = require('pilotfish.connection'), require('pilotfish.positions')
  local buf = vim.api.nvim_get_current_buf()
  if not connection.is_document(buf) then return vim.notify('Pilotfish: only a file can be edited', vim.log.levels.ERROR) end
  local row, column = unpack(vim.api.nvim_win_get_cursor(0))
  local place = command.range > 0 and selection(command)
    or { uri = vim.uri_from_bufnr(buf), range = positions.range(buf, row, row, connection.encoding(), { column, column }) }
  local edits = require('pilotfish.inline_edit')
  if command.bang then return edits.retry(place) end
  edits.start({ uri = place.uri, range = place.range }, command.args)
end

local function pilotfish(command)
  local chat = require('pilotfish.chat')
  local blocks = command.range > 0 and { selection(command) } or {}
  if command.bang then session().new() else session() end
  if command.args ~= '' then
    table.insert(blocks, 1, { type = 'text', text = command.args })
    return session().send(blocks, 'queue')
  end
  for _, block in ipairs(blocks) do chat.attach(block) end
  chat.focus_prompt(true)
end

local COMMANDS = {
  Pilotfish = { pilotfish, nargs = '*', bang = true, range = true, desc = 'Open the chat, or send a prompt' },
  PilotfishEdit = { edit, nargs = '*', bang = true, range = true, desc = 'Edit at the range or the cursor' },
  PilotfishSteer = {
    function(command) session().send({ { type = 'text', text = command.args } }, 'steer') end,
    nargs = '+',
    desc = 'Send a prompt into the running turn',
  },
  PilotfishStop = { function() session().stop() end, desc = 'Stop the running turn' },
  PilotfishSessions = { function(command) session().choose(command.args) end, nargs = '*', desc = 'Go on with a session' },
  PilotfishNew = { function() session().new() end, desc = 'Start a session' },
  PilotfishOlder = { function() session().older() end, desc = 'Show older messages' },
  PilotfishModel = { function(command) session().model(command.args) end, nargs = '?', desc = 'Choose the model' },
  PilotfishMode = {
    function(command) session().mode(command.args) end,
    nargs = '?',
    complete = function() return require('pilotfish.session').MODES end,
    desc = 'Choose what runs without a question',
  },
  PilotfishApprove = {
    function()
      session()
      if not require('pilotfish.question').focus() then vim.notify('Nothing waits for an answer') end
    end,
    desc = 'Go to the oldest question',
  },
  PilotfishUndo = { function() session().revert('undo') end, desc = 'Put back the files of the last turn' },
  PilotfishRedo = { function() session().revert('redo') end, desc = 'Put them forward again' },
  PilotfishReview = {
    function(command)
      session()
      local actions = require('pilotfish.review').ACTIONS
      local action = actions[command.args ~= '' and command.args or 'next']
      if not action then return vim.notify('Pilotfish: keep, undo, next or previous', vim.log.levels.ERROR) end
      action(command.bang)
    end,
    nargs = '?',
    bang = true,
    complete = function() return { 'keep', 'undo', 'next', 'previous' } end,
    desc = 'Keep or undo a change of the agent, or go to the next one',
  },
  PilotfishQueue = { function() session().queue() end, desc = 'Withdraw a waiting prompt' },
  PilotfishTrust = {
    function(command) session().trust(not command.bang) end,
    bang = true,
    desc = 'Trust this folder; with ! only read it',
  },
  PilotfishContext = {
    function()
      local options = require('pilotfish.config').options
      options.context = not options.context
      vim.notify('Pilotfish: prompts are sent ' .. (options.context and 'with' or 'without') .. ' what you look at')
    end,
    desc = 'Send prompts with or without what you look at',
  },
  PilotfishRestart = {
    function()
      session()
      require('pilotfish.connection').stop()
      vim.notify('Pilotfish: the next prompt starts the server again')
    end,
    desc = 'End the server process',
  },
}

--- Defines the commands. Safe to call again.
function M.create()
  for name, command in pairs(COMMANDS) do
    local options = {}
    for key, value in pairs(command) do
      if key ~= 1 then options[key] = value end
    end
    vim.api.nvim_create_user_command(name, command[1], options)
  end
  -- The code action "Edit with Pilotfish…" carries this one with the place.
  vim.lsp.commands['pilotfish.edit'] = function(command) require('pilotfish.inline_edit').start(command.arguments[1]) end
  -- Code actions of the server carry this command with a ChatDraft.
  vim.lsp.commands['pilotfish.openChat'] = function(command)
    local draft = (command.arguments or {})[1] or { prompt = {} }
    local chat = require('pilotfish.chat')
    if draft.newSession then session().new() end
    if draft.send then return session().send(draft.prompt, 'queue') end
    session()
    for _, block in ipairs(draft.prompt) do
      if block.type == 'text' then chat.set_prompt(block.text) else chat.attach(block) end
    end
    chat.focus_prompt(true)
  end
end

return M
