--- The current session: sends prompts, follows updates, loads after a gap or a restart, and changes model and mode.
local approvals = require('pilotfish.approvals')
local chat = require('pilotfish.chat')
local connection = require('pilotfish.connection')
local editor = require('pilotfish.editor')
local render = require('pilotfish.render')
local review = require('pilotfish.review')
local transcripts = require('pilotfish.transcript')
local trust = require('pilotfish.trust')

local M = {}

local PAGE = 200
local REVIEWED = { file_changed = true, review_changed = true, turn_ended = true } -- updates that change the review
local loading ---@type table[]? updates that came while a load is under way
local creating ---@type (fun(session_id: string))[]? what waits for a session that is being made
local prompts_sent = 0

local function current_id() return chat.transcript.session and chat.transcript.session.id end

local function fail(error)
  local remedy = type(error.data) == 'table' and error.data.remedy or nil
  chat.changed(chat.transcript:note('error', error.message, remedy))
end

-- Updates -------------------------------------------------------------------------------------------------------------

local function reduce(params)
  local outcome, item, appended = chat.transcript:update(params)
  if outcome == 'gap' then return M.load(params.sessionId) end
  chat.changed(item, appended)
end

connection.register({
  ['pilotfish/session/update'] = function(_, params)
    local kind = params.update.kind
    if REVIEWED[kind] then review.refresh() end
    if kind == 'turn_ended' then approvals.turn_ended(params.turnId) end
    if loading and params.sessionId == loading.id then return table.insert(loading, params) end
    if params.sessionId == current_id() then reduce(params) end
  end,
})

--- Loads a session and shows it; updates that come meanwhile are reduced after it.
---@param session_id string
---@param callback? fun()
function M.load(session_id, callback)
  local mine = { id = session_id }
  loading = mine
  connection.request('session/load', { sessionId = session_id, limit = PAGE }, function(error, result)
    if loading ~= mine then return end
    loading = nil
    if error then return fail(error) end
    local queue = current_id() == session_id and chat.transcript.queue or {}
    local transcript = transcripts.loaded(result)
    transcript.queue = queue
    chat.show(transcript)
    for _, request in ipairs(result.pendingApprovals) do approvals.show(request) end
    for _, params in ipairs(mine) do reduce(params) end
    review.refresh()
    if callback then callback() end
  end)
end

--- Shows the page of items before the oldest one.
function M.older()
  local first = chat.transcript.items[1]
  if not chat.transcript.has_more or not first then return vim.notify('There are no older messages') end
  local params = { sessionId = current_id(), before = first.id, limit = PAGE }
  connection.request('session/load', params, function(error, result)
    if error then return fail(error) end
    chat.transcript:prepend(result)
    chat.redraw()
  end)
end

-- The server ----------------------------------------------------------------------------------------------------------

--- Calls `callback()` when the server runs; asks for trust first where nobody has said.
local function connected(callback)
  local running = connection.client()
  if running then return connection.start(false, callback) end
  local folder = connection.root()
  local function start(trusted)
    connection.start(trusted == true, function()
      -- After a crash or `:PilotfishRestart` the conversation goes on where it was.
      local id = current_id()
      if id then M.load(id, callback) else callback() end
    end)
  end
  local trusted = trust.of(folder)
  if trusted ~= nil then return start(trusted) end
  chat.open()
  trust.ask(folder, start)
end

M.connected = connected

connection.on_exit = function(problem)
  approvals.clear()
  loading, creating = nil, nil
  chat.transcript.phase, chat.transcript.queue = 'idle', {}
  if problem and not M.leaving then
    fail({ message = string.format('The Pilotfish server ended (%s).', problem),
      data = { remedy = 'The next prompt starts it again; :checkhealth pilotfish says more.' } })
  end
  chat.draw_bars()
end
vim.api.nvim_create_autocmd('VimLeavePre', {
  group = vim.api.nvim_create_augroup('pilotfish_session', {}),
  callback = function() M.leaving = true end,
})

--- Calls `callback(session_id)` with the current session; starts one where there is none.
local function with_session(callback)
  connected(function()
    if current_id() then return callback(current_id()) end
    if creating then return table.insert(creating, callback) end
    creating = { callback }
    connection.request('session/new', {}, function(error, result)
      local callbacks = creating or {}
      creating = nil
      if error then return fail(error) end
      chat.show(transcripts.new(result.session))
      for _, call in ipairs(callbacks) do call(result.session.id) end
    end)
  end)
end

-- Prompts -------------------------------------------------------------------------------------------------------------

--- Sends content blocks.
---@param blocks table[]
---@param when_busy 'queue'|'steer'
function M.send(blocks, when_busy)
  local prompt = vim.list_extend({ vim.tbl_extend('error', { type = 'context' }, editor.context()) }, blocks)
  chat.open()
  with_session(function(session_id)
    prompts_sent = prompts_sent + 1
    local prompt_id = string.format('nvim-%d-%d', vim.fn.getpid(), prompts_sent)
    local params = { sessionId = session_id, prompt = prompt, promptId = prompt_id, whenBusy = when_busy }
    if chat.transcript:busy() then chat.transcript:enqueue(prompt_id, blocks, when_busy) end
    chat.draw_bars()
    connection.request('session/prompt', params, function(error, result)
      if current_id() ~= session_id then return end
      chat.transcript:dequeue(prompt_id)
      if error then return fail(error) end
      if result.reply then
        -- A command was answered without a turn: nothing of it is in the session.
        chat.changed(chat.transcript:put({ id = 'prompt:' .. prompt_id, kind = 'prompt', prompt = blocks }))
        chat.changed(chat.transcript:put({ id = 'reply:' .. prompt_id, kind = 'message', text = result.reply }))
      end
      if result.sessionId and result.sessionId ~= session_id then M.load(result.sessionId) end
      chat.draw_bars()
    end)
  end)
end

--- Sends what is in the prompt window, with what is attached.
---@param when_busy 'queue'|'steer'
function M.send_written(when_busy)
  local text = chat.prompt_text()
  if text == '' then return vim.notify('The prompt is empty') end
  local blocks = { { type = 'text', text = text } }
  vim.list_extend(blocks, chat.attachments)
  chat.attachments = {}
  chat.set_prompt('')
  M.send(blocks, when_busy)
end

--- Stops the running turn.
function M.stop()
  local id = current_id()
  local edits = require('pilotfish.inline_edit').stop()
  if not id then return edits or vim.notify('There is no session to stop') end
  connection.request('session/cancel', { sessionId = id })
end

chat.actions = {
  send = function() M.send_written('queue') end,
  steer = function() M.send_written('steer') end,
  stop = M.stop,
}

-- Sessions, models, modes -----------------------------------------------------------------------------------------------

--- Starts an empty session; the server makes it when the first prompt is sent.
function M.new()
  chat.show(transcripts.new())
  chat.focus_prompt(false)
end

--- Lets the user choose a session to go on with.
---@param query? string
function M.choose(query)
  connected(function()
    local params = { query = query ~= '' and query or nil, limit = 200 }
    connection.request('session/list', params, function(error, result)
      if error then return connection.report(error) end
      if #result.sessions == 0 then return vim.notify('No session is found') end
      vim.ui.select(result.sessions, {
        prompt = 'Go on with',
        kind = 'pilotfish_session',
        format_item = function(session)
          local day = session.updatedAt:sub(1, 16):gsub('T', ' ')
          local state = session.elsewhere and ' (runs in another window)' or session.busy and ' (running)' or ''
          return string.format('%s  %s  %d turns%s', day, session.title, session.turns, state)
        end,
      }, function(session)
        if not session then return end
        M.load(session.id, function() chat.focus_prompt(false) end)
      end)
    end)
  end)
end

local function configure(change)
  with_session(function(session_id)
    connection.request('session/configure', vim.tbl_extend('force', { sessionId = session_id }, change), function(error, result)
      if error then return connection.report(error) end
      chat.transcript.session = result.session
      chat.draw_bars()
    end)
  end)
end

--- Changes the model, or lets the user choose one.
---@param model? string
function M.model(model)
  if model and model ~= '' then return configure({ model = model }) end
  connected(function()
    connection.request('model/list', {}, function(error, result)
      if error then return connection.report(error) end
      -- Those that are not available can still be named: `:PilotfishModel provider:name`.
      local available = vim.tbl_filter(function(one) return one.available end, result.models)
      vim.ui.select(available, {
        prompt = 'Model (now ' .. result.current .. ')',
        kind = 'pilotfish_model',
        format_item = function(one) return one.label .. '  ' .. one.id end,
      }, function(one)
        if one then configure({ model = one.id }) end
      end)
    end)
  end)
end

M.MODES = { 'ask', 'plan', 'edit', 'auto' }
local MEANING = {
  ask = 'reading runs without a question',
  plan = 'reading only; everything else is refused',
  edit = 'edits in the workspace too',
  auto = 'everything that no rule forbids and that is not sensitive',
}

--- Changes the mode, or lets the user choose one.
---@param mode? string
function M.mode(mode)
  if mode and mode ~= '' then return configure({ mode = mode }) end
  vim.ui.select(M.MODES, {
    prompt = 'Mode: what runs without a question',
    format_item = function(one) return one .. ': ' .. MEANING[one] end,
  }, function(one)
    if one then configure({ mode = one }) end
  end)
end

--- Puts back, or forward again, the files of the last turn that changed some.
---@param direction 'undo'|'redo'
function M.revert(direction)
  local id = current_id()
  if not id then return vim.notify('There is no session') end
  connection.request('session/' .. direction, { sessionId = id }, function(error, result)
    if error then return connection.report(error) end
    local words = {}
    for _, file in ipairs(result.changes) do table.insert(words, render.path(file.uri)) end
    for _, file in ipairs(result.refused) do
      table.insert(words, 'left alone: ' .. render.path(file.uri) .. ' (' .. file.reason .. ')')
    end
    local verb = direction == 'undo' and 'Undone: ' or 'Redone: '
    chat.changed(chat.transcript:note('info', verb .. (#words > 0 and table.concat(words, ', ') or 'nothing')))
  end)
end

--- Lists the prompts that wait and withdraws the chosen one.
function M.queue()
  local id = current_id()
  if not id then return vim.notify('There is no session') end
  connection.request('queue/list', { sessionId = id }, function(error, result)
    if error then return connection.report(error) end
    if #result.prompts == 0 then return vim.notify('No prompt waits') end
    vim.ui.select(result.prompts, {
      prompt = 'Withdraw a waiting prompt',
      format_item = function(waiting) return waiting.kind .. ': ' .. render.prompt_text(waiting.prompt):gsub('\n', ' ') end,
    }, function(waiting)
      if waiting then connection.request('queue/remove', { sessionId = id, promptId = waiting.promptId }) end
    end)
  end)
end

--- Changes the trust in the workspace folder.
---@param trusted boolean
function M.trust(trusted)
  local client = connection.client()
  trust.set(client and client.config.root_dir or connection.root(), trusted)
  connection.notify('trust/changed', { trusted = trusted })
  vim.notify(trusted and 'Pilotfish: this folder is trusted' or 'Pilotfish: this folder is only read')
end

return M
